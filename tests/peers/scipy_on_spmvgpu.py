"""A plugin of pytest with which SciPy's own tests run on this package; `tests/test_peers.py` starts it.

The environment says how. With ``SPMVGPU_PEERS=functions``, the tests import our functions, not SciPy's. With
``SPMVGPU_PEERS=operators``, SciPy's functions get our operator in place of each matrix. The file named by
``SPMVGPU_PEERS_OUTCOMES`` receives a line of JSON for each test that called ours: name, outcome and error.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy._lib import _array_api

import spmvgpu as sg

FUNCTIONS = "bicgstab cg eigsh gmres lobpcg lsmr lsqr minres splu spsolve svds"
TAKE_OPERATORS = "bicg bicgstab cg cgs eigs eigsh gcrotmk gmres lgmres lobpcg lsmr lsqr minres qmr svds tfqmr"
# Packages that gather the names which tests import. SciPy's other modules have imported what they use.
PACKAGES = [
    importlib.import_module(f"scipy.sparse.linalg{name}")
    for name in ("", "._isolve", "._eigen", "._eigen.arpack", "._eigen.lobpcg", "._dsolve")
]
INTERFACE = importlib.import_module("scipy.sparse.linalg._interface")
# What SciPy's tests ask about each function: which array libraries it takes.
CAPABILITIES = getattr(_array_api, "xp_capabilities_table", {})

calls = 0  # of ours, by the test that runs


def counted(function):
    """The function, which counts its calls."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        global calls
        calls += 1
        return function(*args, **kwargs)

    return call


make_operator = counted(sg.aslinearoperator)


def with_operators(name):
    """SciPy's function, which gets our operator in place of a matrix."""
    function = getattr(spla, name)

    @functools.wraps(function)
    def call(A, *args, **kwargs):
        is_matrix = (sp.issparse(A) or isinstance(A, np.ndarray)) and A.ndim == 2
        return function(make_operator(A) if is_matrix else A, *args, **kwargs)

    return call


def replacements():
    """Old and new functions, by name."""
    if os.environ["SPMVGPU_PEERS"] == "functions":
        new = {name: counted(getattr(sg.linalg, name)) for name in FUNCTIONS.split()}
    else:
        new = {name: with_operators(name) for name in TAKE_OPERATORS.split()}
        new["aslinearoperator"] = with_operators("aslinearoperator")
    for name, function in new.items():
        CAPABILITIES[function] = CAPABILITIES.get(getattr(spla, name), {})
    return new


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Replace the functions while test modules are imported. Later our package calls SciPy's."""
    np.random.seed(20110807)  # some modules draw their matrices when they are imported
    with pytest.MonkeyPatch.context() as patch:
        for name, function in replacements().items():
            for package in PACKAGES:
                if inspect.isfunction(getattr(package, name, None)):  # no module of the same name
                    patch.setattr(package, name, function)
        result = yield
    if os.environ["SPMVGPU_PEERS"] == "operators":
        # Tests of the interface look it up when they run.
        INTERFACE.aslinearoperator = with_operators("aslinearoperator")
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Count anew for each test."""
    global calls
    calls = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Note the outcome of a test that called ours."""
    report = yield
    if calls and (call.when == "call" or (call.when == "setup" and report.failed)):
        error = "" if call.excinfo is None else call.excinfo.exconly()
        with open(os.environ["SPMVGPU_PEERS_OUTCOMES"], "a", encoding="utf-8") as file:
            print(json.dumps([item.nodeid, report.outcome, error]), file=file)
    return report
