"""The entry points of both dialects: the modules that kernels import, and the kernel object behind `@nki.jit`."""

from nki_lab.dialects.activation import activate, deactivate, is_active

__all__ = ["activate", "deactivate", "is_active"]
