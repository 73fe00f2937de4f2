"""What only the papers need: their models, partitions and pictures.

A module is named after the paper whose method it has. The rest of the package finds it by the names that
`spmvgpu._util.plugins` lists, and by public names of `spmvgpu.partition` and `spmvgpu.plot`. It is imported
when a caller uses one of these names.
"""
