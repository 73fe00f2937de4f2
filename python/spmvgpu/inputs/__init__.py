"""From what a caller gives for a matrix to canonical CSR arrays that are checked and nobody else's."""
