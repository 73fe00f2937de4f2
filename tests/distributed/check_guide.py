"""The programs of the guide to many hosts, on a smaller grid."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ranks import COMM

PAGE = (Path(__file__).parents[2] / "docs" / "many-hosts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(blocks):
    """The names of programs that run one after the other."""
    names = {}
    for block in blocks:
        exec(compile(block.replace("n = 1000", "n = 40"), "many-hosts.md", "exec"), names)
        names["read_my_piece"] = lambda: np.ones(names["op"].local_shape[1])
    return names


@pytest.mark.filterwarnings("ignore:Exited")
def test_programs_of_the_guide(capsys):
    names = run(block for block in BLOCKS if "petsc4py" not in block)
    printed = capsys.readouterr().out
    assert ("<1600x1600 " in printed) == (COMM.rank == 0)
    assert names["info"] == 0
    np.testing.assert_allclose(names["w"], 8, atol=0.1)  # the largest eigenvalues


def test_a_solver_of_petsc_with_multigrid():
    try:
        import petsc4py.PETSc  # noqa: F401
    except ImportError as error:  # also where its libraries are missing
        pytest.skip(f"needs petsc4py ({error})")
    program = BLOCKS[0] + next(block for block in BLOCKS if "petsc4py" in block)
    names = run([program])
    assert names["solver"].getConvergedReason() > 0
    assert names["solver"].getIterationNumber() < 30
    b, residual = names["b"], names["b"] - names["op"] @ names["solution"].array
    assert COMM.allreduce(residual @ residual) <= 1e-12 * COMM.allreduce(b @ b)
