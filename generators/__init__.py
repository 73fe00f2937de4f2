"""Matrices that tests and experiments generate, beside those of `spmvgpu.gallery`.

`families` has named matrices of every kind, `random_families` random ones for a seed, `systems` the
matrices of systems of equations of a given size, and `stand_ins` matrices with given row lengths. The same
arguments give the same matrix.
"""
