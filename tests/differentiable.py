"""PyTorch and JAX behind one interface: arrays, derivatives against differences, and transformations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from internals import has_cudss

SYMMETRIC = sp.csr_array(np.array([[4.0, 1, 0, 0], [1, 5, 2, 0], [0, 2, 6, 1], [0, 0, 1, 3]]))
GENERAL = sp.csr_array(np.array([[4.0, 1, 0, 0], [0, 5, 2, 0], [1, 0, 6, 1], [0, -1, 0, 3]]))
TIGHT = {"rtol": 1e-13}


def skip_without_factors(method, device):
    """A GPU has no factors without cuDSS."""
    if method == "direct" and device != "cpu" and not has_cudss():
        pytest.skip("needs cuDSS")


def matrix_for(method, dtype=np.float64):
    A = SYMMETRIC if method in ("cg", "minres") else GENERAL
    return A + 0.5j * (sp.triu(A, 1) - sp.tril(A, -1)) if np.dtype(dtype).kind == "c" else A


def numbers(shape, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=shape)
    values = values + 1j * random.normal(size=shape) if np.dtype(dtype).kind == "c" else values
    return np.asarray(values, dtype)


class Torch:
    """Tensors on a device."""

    def __init__(self, device):
        import torch

        self.xp, self.own, self.place = torch, sg.torch, torch.device(device)
        self.compile = [lambda f: f]  # compiled functions have tests of their own
        self.layouts = {
            "csr": lambda dense: dense.to_sparse_csr(),
            "csc": lambda dense: dense.to_sparse_csc(),
            "coo": lambda dense: dense.to_sparse_coo(),
            "bsr": lambda dense: dense.to_sparse_bsr((2, 5)),
        }

    def array(self, shape, dtype=np.float64, seed=0):
        return self.of(numbers(shape, dtype, seed))

    def of(self, values):
        return self.xp.from_numpy(np.array(values)).to(self.place)

    def cast(self, x, name):
        return x.to(getattr(self.xp, name))

    def check(self, function, given, order=2):
        """Fail unless derivatives are near differences; those of second order, of the squares."""
        given = [x.detach().requires_grad_() for x in given]
        assert self.xp.autograd.gradcheck(function, given)
        if order == 2:
            assert self.xp.autograd.gradgradcheck(lambda *x: function(*x) ** 2, given)

    def gradient(self, function, x):
        x = x.detach().requires_grad_()
        function(x).sum().backward()
        return x.grad

    def second_derivatives(self, function, given):
        both = self.xp.autograd.functional.hessian(lambda *x: (function(*x) ** 2).sum(), given)
        return [part for parts in both for part in parts]

    def vmap(self, function, axes=0):
        return self.xp.vmap(function, in_dims=axes)

    def coo(self, values, rows, cols, shape):
        return self.xp.sparse_coo_tensor(np.stack([rows, cols]), values, shape).to(self.place)


class Jax:
    """Arrays on the default device."""

    def __init__(self):
        import jax
        from jax.experimental import sparse

        self.jax, self.xp, self.own, self.sparse = jax, jax.numpy, sg.jax, sparse
        self.compile = [lambda f: f, jax.jit]
        kinds = sparse.BCOO, sparse.BCSR
        self.layouts = {
            f"{kind.__name__} of {nse}": lambda dense, kind=kind, nse=nse: kind.fromdense(dense, nse=nse)
            for kind in kinds
            for nse in (8, 11)  # as many entries as there are, and some that fill up
        }

    def array(self, shape, dtype=np.float64, seed=0):
        return self.of(numbers(shape, dtype, seed))

    def of(self, values):
        return self.xp.asarray(values)

    def cast(self, x, name):
        return x.astype(name)

    def check(self, function, given, order=2):
        """Fail unless derivatives are near differences, forward and backward, and so when compiled."""
        from jax.test_util import check_grads

        close = {"atol": 1e-5, "rtol": 1e-5}
        check_grads(lambda *x: function(*x) ** 2, tuple(given), order, ("fwd", "rev"), **close)
        check_grads(self.jax.jit(function), tuple(given), 1, ("fwd", "rev"), **close)

    def gradient(self, function, x):
        return self.jax.grad(lambda x: function(x).sum())(x)

    def second_derivatives(self, function, given):
        both = self.jax.jit(self.jax.hessian(lambda *x: (function(*x) ** 2).sum(), (0, 1)))(*given)
        return [part for parts in both for part in parts]

    def vmap(self, function, axes=0):
        return self.jax.vmap(function, axes)

    def coo(self, values, rows, cols, shape):
        return self.sparse.BCOO((self.of(values), self.of(np.stack([rows, cols], 1))), shape=shape)
