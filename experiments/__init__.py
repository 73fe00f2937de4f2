"""Measurements of spmvgpu, run from a checkout: ``python -m experiments NAME``.

`papers` repeats the experiments of the papers that formats and kernels come from, `products` times products
beside those of other libraries, `jobs` whole tasks as users run them. `peers` are the other libraries, and
`report` makes tables and pictures of the results. `clock`, `engine`, `environment`, `records` and `matrices`
serve all of them.
"""
