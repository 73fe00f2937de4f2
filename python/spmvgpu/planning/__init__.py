"""Results of choosing a format: what `spmvgpu.predict` and `SparseOperator.tuning` give.

>>> import spmvgpu as sg
>>> A = sg.gallery.poisson2d(30)
>>> isinstance(sg.predict(A, "cpu"), sg.planning.Predictions)
True
>>> isinstance(sg.aslinearoperator(A, device="cpu").tuning, sg.planning.Tuning)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._util.steps import Step
    from .predict import Prediction, Predictions
    from .tuning import Trial, Tuning

__all__ = ["Prediction", "Predictions", "Step", "Trial", "Tuning"]

# Imported at first use: who needs a module of this package alone does not wait for SciPy.
_MODULE_OF = {
    "Prediction": ".predict",
    "Predictions": ".predict",
    "Step": ".._util.steps",
    "Trial": ".tuning",
    "Tuning": ".tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
