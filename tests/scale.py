"""The number of drawn examples, which `make test-all` takes in full and the other targets in part."""

from __future__ import annotations

from hypothesis import settings


def scaled(examples: int) -> int:
    """Return `examples` in the profile "thorough", and the part of them that the current profile draws of a hundred."""
    return max(5, examples * settings.default.max_examples // 100)  # type: ignore[union-attr]
