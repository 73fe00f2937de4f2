"""What a type checker makes of calls: the library of an array goes in and comes out."""

import os
import re
import sys
import textwrap
from pathlib import Path
from typing import get_args

import pytest

import spmvgpu as sg
from spmvgpu import _types
from spmvgpu.construct import PARTITIONED

USE = """
    from __future__ import annotations
    from typing import Any
    import numpy as np
    import numpy.typing as npt
    import scipy.sparse as sp
    import spmvgpu as sg

    class Tensor:  # of a library that speaks DLPack
        def __dlpack__(self, *, stream: int | None = None) -> Any:
            raise NotImplementedError

    A = sp.eye_array(3)
    one = sg.aslinearoperator(A, "csr", "cpu")
    several = sg.aslinearoperator(A, device=["cpu", "cpu"])
    name: str = "se" + "ll"
    also = sg.aslinearoperator(A, format=name, device=name)
    x: npt.NDArray[np.float64] = np.ones(3)
    t = Tensor()
    reveal_type(one)
    reveal_type(several)
    reveal_type(also)
    reveal_type(one @ x)
    reveal_type(one @ t)
    reveal_type(several @ t)
    reveal_type(one @ [1.0, 2.0, 3.0])
    reveal_type(one.spmv(x))
    reveal_type(one.spmv(t, out=t, alpha=2))
    reveal_type(one * 2)
    reveal_type(-one)
    reveal_type(several @ several.distribute(x))
    reveal_type(one.astype("float32")[1:].to("cuda:1"))
    reveal_type(sg.formats())
"""

EXPECTED = [
    "SparseOperator",
    "MultiDeviceOperator",
    "SparseOperator",
    "ndarray[Any, dtype[Any]]",
    "Tensor",
    "Tensor",
    "ndarray[Any, dtype[Any]]",
    "ndarray[Any, dtype[float64]]",
    "Tensor",
    "SparseOperator",
    "SparseOperator",
    "DistributedVector",
    "SparseOperator",
    "tuple[str, ...]",
]


def test_types_of_calls(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    root = Path(sg.__file__).parents[1]
    if root.name != "site-packages":  # where mypy looks by itself
        monkeypatch.setenv("MYPYPATH", str(root))
    file = tmp_path / "use.py"
    file.write_text(textwrap.dedent(USE))
    # What the user's file gets to see: without the settings of a checkout, and without errors of other files.
    alone = ["--config-file=", "--follow-imports=silent", "--disable-error-code=import-untyped"]
    arguments = ["--strict", "--cache-dir", str(tmp_path), *alone]
    told, complaints, status = api.run([*arguments, f"--python-executable={sys.executable}", str(file)])
    assert not complaints
    assert status == 0, told
    revealed = re.findall(r'Revealed type is "(.*)"', told)
    plain = [re.sub(r"\b(\w+\.)+|`\d+", "", name) for name in revealed]
    # As NumPy's newest and oldest versions call them.
    plain = [name.replace("ndarray[tuple[Any, ...]", "ndarray[Any") for name in plain]
    plain = [name.replace("floating[_64Bit]", "float64") for name in plain]
    assert plain == EXPECTED


def test_editors_offer_the_formats():
    offered = next(get_args(part) for part in get_args(_types.Format) if part is not str)
    assert set(offered) == {"auto", PARTITIONED, *sg.formats()}


def test_the_package_says_that_it_is_typed():
    assert os.path.exists(os.path.join(os.path.dirname(sg.__file__), "py.typed"))
