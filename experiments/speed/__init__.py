"""The experiments: a file each, which says what is measured and what is made of it; see `engine`."""
