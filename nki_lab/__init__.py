"""NKI kernels on any computer: compile, check, simulate and draw them."""
