"""Results of choosing a format: what `spmvgpu.predict` and `SparseOperator.tuning` give.

>>> import spmvgpu as sg
>>> A = sg.gallery.poisson2d(30)
>>> isinstance(sg.predict(A, "cpu"), sg.planning.Predictions)
True
>>> isinstance(sg.aslinearoperator(A, device="cpu").tuning, sg.planning.Tuning)
True
"""

from typing import TYPE_CHECKING

from .._util.lazy import public_names

if TYPE_CHECKING:
    from .._util.steps import Step
    from .predict import Prediction, Predictions
    from .tuning import Trial, Tuning

__all__ = ["Prediction", "Predictions", "Step", "Trial", "Tuning"]

# Imported at first use: who needs a module of this package alone does not wait for SciPy.
__getattr__, __dir__ = public_names(__name__, __all__, ".._util.steps", ".tuning", ".predict")
