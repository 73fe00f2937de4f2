"""How large a matrix may be."""

import numpy as np

#: The largest row and column.
INDEX_LIMIT = int(np.iinfo(np.int32).max)

#: The most stored entries of a matrix in one format, whose arrays have int32 indices. One with more has int64
#: indices as CSR, and is stored in pieces of neighbouring rows.
ENTRY_LIMIT = INDEX_LIMIT
