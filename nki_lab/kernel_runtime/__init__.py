"""Running kernels: tensors, program form, front end, and the walkers for values, time and races."""
