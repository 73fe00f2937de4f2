"""Read and write matrices and vectors in files: Matrix Market, and the formats of SciPy and NumPy.

Errors name the file. A file that is broken, truncated or not what its name says raises `ValueError`. What a
file announces is compared with its size before memory is allocated.
"""

from .inputs.matrix_io import MATRIX_SUFFIXES, VECTOR_SUFFIXES, read_matrix, read_vector, write_matrix

__all__ = ["MATRIX_SUFFIXES", "VECTOR_SUFFIXES", "read_matrix", "read_vector", "write_matrix"]


def __dir__() -> list[str]:
    return __all__
