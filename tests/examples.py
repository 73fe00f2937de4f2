"""Small matrices that fit on a page: the formats' arrays of them are written down in the tests."""

import numpy as np
import scipy.sparse as sp

# With an empty row, and rows of one to three entries.
FIVE_ROWS = sp.csr_array(
    np.array([[10, 0, 0, 11], [0, 0, 0, 0], [0, 20, 0, 0], [30, 0, 31, 32], [0, 0, 0, 40]], dtype=float)
)

# The example of Bell and Garland 2008, which the formats' headers draw.
BELL_GARLAND = sp.csr_array(np.array([[1, 7, 0, 0], [0, 2, 8, 0], [5, 0, 3, 9], [0, 6, 0, 4]], dtype=float))

# Figure 4 of Yin et al. 2012.
YIN = sp.csr_array(
    np.array([[2, 4, 0, 0, 0], [1, 2, 3, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], dtype=float)
)
