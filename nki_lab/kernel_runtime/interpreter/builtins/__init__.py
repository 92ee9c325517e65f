"""Builtins, decorators, NumPy and the standard library as interpreted code sees them; modules enter their own."""
