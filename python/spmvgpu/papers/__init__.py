"""What only the papers need: their models, partitions and pictures.

A module is named after the paper whose method it has. The rest of the package works without this room. It
imports a module from here when a caller asks for something that the module has: by a name that
`spmvgpu._util.plugins` lists, or by a public name of `spmvgpu.partition` or `spmvgpu.plot`.
"""
