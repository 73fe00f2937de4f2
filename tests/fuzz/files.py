"""Damaged files: matrices and vectors."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

import spmvgpu as sg
from market_files import WRITTEN
from reference import assert_product
from spmvgpu import matrix_io

from .cases import DOCUMENTED, REFUSED, attempt, kind
from .draw import contained, maybe, numbers, pick, triplets

_ERRORS = (*DOCUMENTED, OSError)

_WORDS = [
    "0", "-1", "1", "2", "7", "100000", "999999999", "2147483648", "99999999999", "9" * 25, "1e3", "1.5",
    "nan", "inf", "-0", "0x1", "1e400", "1e-400", "1D3", "-1.5d-3", "1.5+100", "+2.5", "+-1", "1e", "%", "%%",
    "a", "é", "\0", "symmetric", "general", "array", "pattern", "integer", "complex",
    "%%AMGX base0\n", "\t", "\r\n", "\n", "\n\n", "\n% among\n", "\33[1m", " ", "", "1 1 1", "+1",
]  # fmt: skip
_ARRAYS: list[Any] = [
    "csr", b"dia", b"\xff", 3, np.nan, [-1, 2], [2**31, 1], [10**9, 10**9], [3], "2020-01-01", "x" * 9999,
]  # fmt: skip
_MOST_SAID = 600


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="spmvgpu-fuzz-")


def _text(rng: np.random.Generator) -> bytes:
    """A Matrix Market file, written by SciPy or by another program."""
    if maybe(rng, 0.5):
        stream = io.BytesIO()
        content: Any = contained(rng, triplets(rng), "coo")[0]
        if content.nnz > 200 or content.dtype.kind not in "f":
            content = sp.coo_array(np.eye(4) if maybe(rng, 0.5) else np.ones((3, 2)))
        scipy.io.mmwrite(stream, content.toarray() if maybe(rng, 0.3) else content)
        return stream.getvalue()
    return pick(rng, [text for text, _ in WRITTEN.values()])


def _words_changed(rng: np.random.Generator, text: bytes) -> bytes:
    """Words replaced, doubled or left out, in lines or at the end."""
    lines = [line.split(" ") for line in text.decode("latin-1").split("\n")]
    for _ in range(1 + int(rng.integers(3))):
        line = pick(rng, lines[:3] if maybe(rng, 0.6) else lines)
        place = int(rng.integers(len(line) + 1))
        line[place : place + int(rng.integers(2))] = [pick(rng, _WORDS)] * int(rng.integers(3))
    text = "\n".join(" ".join(line) for line in lines).encode()
    return (
        text.rstrip() + pick(rng, [b"", b" ", b"\t", b" 1", b"\n", b"\r\n", b"\n\n"])
        if maybe(rng, 0.5)
        else text
    )


def _bytes_changed(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes flipped, cut off, doubled."""
    data = bytearray(content)
    for _ in range(1 + int(rng.integers(4))):
        if not data:
            break
        place = int(rng.integers(len(data)))
        way = int(rng.integers(5))
        if way == 0:
            data[place] ^= 1 << int(rng.integers(8))
        elif way == 1:
            data[place] = pick(rng, [0, 255, 128, 10, 32, 48, 57])
        elif way == 2:
            del data[place : place + 1 + int(rng.integers(8))]
        elif way == 3:
            data[place:place] = data[: int(rng.integers(16))]
        elif maybe(rng, 0.5):
            del data[place:]
    return bytes(data)


@kind(weight=8)
def texts(rng: np.random.Generator, device: str) -> None:
    """Damaged ``.mtx`` and ``.mtx.gz`` files, as matrices and as vectors."""
    text = _text(rng)
    text = _words_changed(rng, text) if maybe(rng, 0.6) else _bytes_changed(rng, text)
    name = "A.mtx"
    if maybe(rng, 0.3):
        name, text = "A.mtx.gz", gzip.compress(text, 1)
        if maybe(rng, 0.5):
            text = _bytes_changed(rng, text)
    _read(name, text, matrix_io.read_matrix if maybe(rng, 0.7) else matrix_io.read_vector, device)


def _read(name: str, content: bytes, read: Callable[[Path], Any], device: str) -> None:
    with _folder() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        # Messages name the file, and say what a parser said.
        result = attempt(_with_short_messages, read, path, errors=_ERRORS, quotes=True)
    if result is REFUSED:
        return
    if read is matrix_io.read_vector:
        assert result.ndim == 1
        return
    result.check_format(full_check=True)
    if result.dtype.kind == "f" and max(result.shape) < 10**6:
        op = sg.aslinearoperator(result, device=device, format="csr")
        if np.abs(result.data).max(initial=0) < 1e30:
            x = np.ones(op.shape[1], op.dtype)
            assert_product(op @ x, result, x)


def _with_short_messages(read: Callable[[Path], Any], path: Path) -> Any:
    try:
        return read(path)
    except _ERRORS as error:
        message = str(error)
        assert message.startswith(f"{path}: "), message
        assert len(message) < _MOST_SAID, message[: 2 * _MOST_SAID]
        assert message.isprintable(), message
        raise


@kind(weight=5)
def archives(rng: np.random.Generator, device: str) -> None:
    """Damaged ``.npz`` and ``.npy`` files: bytes, or arrays of other types and lengths."""
    stream = io.BytesIO()
    if maybe(rng, 0.3):
        array = numbers(rng, int(rng.integers(9)), pick(rng, ["f8", "f4", "i4", "D", "?", "g"]))
        np.save(stream, array.reshape(pick(rng, [(-1,), (-1, 1), (1, -1)])))
        _read("x.npy", _bytes_changed(rng, stream.getvalue()), matrix_io.read_vector, device)
        return
    kinds = ["csr", "csc", "coo", "bsr", "dia"]
    matrix, _ = contained(rng, triplets(rng), pick(rng, kinds))
    sp.save_npz(stream, matrix, compressed=maybe(rng, 0.5))
    if maybe(rng, 0.5):
        _read("A.npz", _bytes_changed(rng, stream.getvalue()), matrix_io.read_matrix, device)
        return
    stream.seek(0)
    with np.load(stream) as loaded:
        arrays = dict(loaded)
    name = pick(rng, list(arrays))
    array = arrays[name]
    ways = [
        lambda: array.reshape(-1)[: int(rng.integers(array.size + 1))],
        lambda: array.reshape(*array.shape, 1),
        lambda: np.array(pick(rng, _ARRAYS)),
    ]
    if array.dtype.kind in "biuf":
        ways.append(lambda: array.astype(pick(rng, ["g", "D", "S3", "M8[s]", "f2", "u1", "i8", "?"])))
    if array.dtype.kind in "iu" and name != "shape":
        ways.append(lambda: array + np.array(pick(rng, [-1, 1, 1000, -(2**31)]), "i8"))
    arrays[name] = pick(rng, ways)()
    if maybe(rng, 0.1):
        del arrays[name]
    changed = io.BytesIO()
    np.savez(changed, **arrays)
    _read("A.npz", changed.getvalue(), matrix_io.read_matrix, device)
