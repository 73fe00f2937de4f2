"""One matrix or vector in the ways in which programs write Matrix Market files."""

import numpy as np

DIAGONAL = [[1.5, 0], [0, -2]]
SYMMETRIC = [[1.0, 5], [5, 0]]
SKEW = [[0.0, -5], [5, 0]]
HERMITIAN = [[3.0, 5 - 1j], [5 + 1j, 0]]
COLUMN = [[1.0], [0], [3]]

# What follows "%%MatrixMarket ", and by default "matrix coordinate ".
_WRITTEN = {
    "comments": ("real general\n% a\n\n%b\n2 2 2\n% c\n1 1 1.5\n\n %d\n2 2 -2\n%e", DIAGONAL),
    "crlf": ("real general\r\n% a\r\n2 2 2\r\n1 1 1.5\r\n\r\n2 2 -2\r\n", DIAGONAL),
    "blanks": ("matrix  coordinate\treal general \n 2\t2  2 \n\t1  1\t1.5 \n  2 2 -2\t\n", DIAGONAL),
    "upper case": ("MATRIX COORDINATE REAL GENERAL\n2 2 2\n1 1 1.5\n2 2 -2\n", DIAGONAL),
    "fortran": ("real general\n2 2 2\n1 1 +0.15D+01\n2 2 -.2d1\n", DIAGONAL),
    "signs": ("real general\n2 2 2\n+1 +1 +1.5\n2 2 -2.\n", DIAGONAL),
    "padded": ("real general\n2 2 2\n01 01 001.50\n" + "0" * 30 + "2 2 -2E0\n", DIAGONAL),
    "any order": ("real general\n2 2 3\n2 2 -3\n1 1 1.5\n2 2 1\n", DIAGONAL),
    "double": ("double general\n2 2 2\n1 1 1.5\n2 2 -2\n", DIAGONAL),
    "unsigned": ("unsigned-integer general\n2 2 1\n2 1 18446744073709551615\n", [[0, 0], [2.0**64, 0]]),
    "integer": ("integer general\n2 2 2\n1 1 -7\n2 2 +8\n", [[-7.0, 0], [0, 8]]),
    "pattern": ("pattern symmetric\n2 2 2\n2 1\n2 2\n", [[0.0, 1], [1, 1]]),
    "complex": ("complex general\n2 2 1\n1 2 1e0 -2\n", [[0, 1 - 2j], [0, 0]]),
    "lower": ("real symmetric\n2 2 2\n1 1 1\n2 1 5\n", SYMMETRIC),
    "upper": ("real symmetric\n2 2 2\n1 1 1\n1 2 5\n", SYMMETRIC),
    "both": ("real symmetric\n2 2 3\n1 1 1\n2 1 5\n1 2 5\n", SYMMETRIC),
    "both, in parts": ("real symmetric\n2 2 4\n1 1 1\n2 1 2\n1 2 5\n2 1 3\n", SYMMETRIC),
    "either": ("integer symmetric\n3 3 2\n2 1 5\n2 3 6\n", [[0.0, 5, 0], [5, 0, 6], [0, 6, 0]]),
    "skew": ("real skew-symmetric\n2 2 1\n2 1 5\n", SKEW),
    "skew, both": ("real skew-symmetric\n2 2 3\n1 2 -5\n2 1 5\n1 1 0\n", SKEW),
    "hermitian": ("complex Hermitian\n2 2 2\n1 1 3 0\n2 1 5 1\n", HERMITIAN),
    "hermitian, both": ("complex hermitian\n2 2 3\n1 1 3 0\n1 2 5 -1\n2 1 5 1\n", HERMITIAN),
    "array": ("matrix array real general\n2 2\n1.5\n% between\n0\n\n0\n-2\n", DIAGONAL),
    "array, symmetric": ("matrix array integer symmetric\n2 2\n1\n5\n0\n", SYMMETRIC),
    "array, skew": ("matrix array real skew-symmetric\n2 2\n5\n", SKEW),
    "array, hermitian": ("matrix array complex hermitian\n2 2\n3 0\n5 1\n0 0\n", HERMITIAN),
    "vector": ("vector coordinate real general\n3 2\n3 3\n1 1\n", COLUMN),
    "vector, array": ("vector array real general\n3\n1\n0\n3\n", COLUMN),
    "vector, no symmetry": ("vector array integer\n3\n1\n0\n3\n", COLUMN),
    "amgx": ("real general\n%%AMGX 1 1 sorted rhs\n2 2 2\n1 1 1.5\n2 2 -2\n2\n7\n8\n", DIAGONAL),
    "amgx, symmetric": (
        "real general symmetric\n%%NVAMG rhs solution\n2 2 3\n1 1 1\n1 2 5\n2 1 5\n% rhs\n7\n8\n",
        SYMMETRIC,
    ),
    "no end": ("real general\n2 2 2\n1 1 1.5\n2 2 -2", DIAGONAL),
    "blank end": ("real general\n2 2 2\n1 1 1.5\n2 2 -2 \t\r", DIAGONAL),
    "no columns": ("matrix array real general\n5 0\n", [[]] * 5),
    "no rows": ("matrix array real general\n0 5", np.zeros((0, 5))),
    "graphblas": ("real general\n%%GraphBLAS type double\n2 2 2\n1 1 1.5\n2 2 -2\n", DIAGONAL),
}


def _file(text: str) -> bytes:
    named = text.lower().startswith(("matrix", "vector"))
    return f"%%MatrixMarket {'' if named else 'matrix coordinate '}{text}".encode()


#: Matrix Market files by what is special about them: the bytes, and the matrix in them.
WRITTEN = {name: (_file(text), A) for name, (text, A) in _WRITTEN.items()}
