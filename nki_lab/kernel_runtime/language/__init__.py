"""`nki.language`: operations on tensors, composites, loops on the device and scheduling, over `issue`."""
