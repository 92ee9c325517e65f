"""PyTorch and JAX around kernels: shims for the Neuron packages of both, and kernels as operators of their graphs.

Nothing here imports torch or jax before a caller has, or before a shim that needs them is imported.
"""
