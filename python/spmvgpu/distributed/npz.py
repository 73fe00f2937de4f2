"""Files of `scipy.sparse.save_npz` read by all ranks: each reads its rows."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.messages import quoted, reason
from .errors import agreement, check_same
from .ranges import Ranges

Array = npt.NDArray[Any]


def read_rows(
    path: Path, comm: Any, divide: Callable[[Ranges, Array], Ranges]
) -> tuple[Ranges, sp.csr_array]:
    """This rank's rows of a CSR matrix, and the ranges of all.

    Parameters
    ----------
    path : Path
    comm : communicator
    divide : callable
        Makes the ranges wanted of even ones and the lengths of this rank's rows in those.

    Raises
    ------
    ValueError, OSError
        On all ranks, if the file is broken or cannot be read.
    """
    with agreement(comm):
        rows, cols = _shape(path)
    check_same(comm, shape=(rows, cols))
    ranges = Ranges.even(comm, rows)
    with agreement(comm):
        offsets = _row_offsets(path, ranges)
    ranges = divide(ranges, np.diff(offsets))
    with agreement(comm):
        offsets = _row_offsets(path, ranges)
        begin, end = int(offsets[0]), int(offsets[-1])
        indices, data = (_part(path, name, begin, end) for name in ("indices", "data"))
        return ranges, sp.csr_array((data, indices, offsets - begin), shape=(len(ranges), cols))


def _shape(path: Path) -> tuple[int, int]:
    kind = _part(path, "format", 0, None).tolist()
    if kind not in (b"csr", "csr"):
        name = quoted(kind if isinstance(kind, bytes) else str(kind))
        raise ValueError(
            f"{path}: a matrix in format {name}; ranks read only CSR matrices, so save A.tocsr()"
        )
    shape = _part(path, "shape", 0, None)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise ValueError(f"{path}: invalid file: the shape is {quoted(str(shape.tolist()))}")
    return int(shape[0]), int(shape[1])


def _row_offsets(path: Path, ranges: Ranges) -> Array:
    offsets = _part(path, "indptr", ranges.begin, ranges.end + 1).astype(np.int64)
    if offsets[0] < 0 or (np.diff(offsets) < 0).any() or (ranges.begin == 0 and offsets[0] != 0):
        raise ValueError(f"{path}: invalid file: indptr must start at 0 and ascend")
    return offsets


def _part(path: Path, name: str, begin: int, end: int | None) -> Array:
    """Entries of one of the arrays in the file; all of them, or its one, if there is no end."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
            version = np.lib.format.read_magic(stream)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, _, dtype = read_header(stream)
            if dtype.hasobject or len(shape) > 1:
                raise ValueError(f"{name} has shape {shape} and dtype {dtype}")
            length = shape[0] if shape else 1
            end = length if end is None else end
            if end > length:
                raise ValueError(f"truncated: {name} has {length} entries, but {end} are needed")
            stream.seek(begin * dtype.itemsize, 1)
            content = stream.read((end - begin) * dtype.itemsize)
            return np.frombuffer(content, dtype, count=end - begin).reshape(-1 if shape else ())
    except OSError:
        raise
    except Exception as error:  # damaged archives give rise to all kinds
        raise ValueError(f"{path}: not a file of scipy.sparse.save_npz: {reason(error)}") from error
