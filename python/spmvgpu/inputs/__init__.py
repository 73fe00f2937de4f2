"""From a matrix of any library to checked and canonical CSR arrays that nothing else changes."""
