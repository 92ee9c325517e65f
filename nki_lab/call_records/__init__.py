"""Records of the calls of kernels and helpers: shapes, dtypes and compile-time values, kept for the checker as data."""
