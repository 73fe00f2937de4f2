"""What is decided before anything is built: format, options, order of rows, and which device has which."""
