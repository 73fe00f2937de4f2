"""From a matrix to a solution: what the experiment `solve` measures, part by part."""
