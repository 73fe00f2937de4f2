"""Benchmarks of spmvgpu and of its peers, side by side in one run. Start with ``benchmarks/README.md``."""
