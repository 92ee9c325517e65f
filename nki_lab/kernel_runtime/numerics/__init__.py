"""The walker for values: what a program computes."""
