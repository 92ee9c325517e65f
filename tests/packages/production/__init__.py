"""Kernels spread over modules, as a library of kernels has them: the evaluator follows the imports."""
