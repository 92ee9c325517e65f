"""Source analysis: syntax trees of kernels, and where their calls stand. Nothing of it is executed."""
