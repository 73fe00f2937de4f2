"""Tables, pictures and goals, made of the results in ``benchmarks/results``; `pages` is the command."""
