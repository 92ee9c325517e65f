"""Messages to a page in parts, so that the page can draw, and the user interrupt, between two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

PART: Final = 4 * 2**20
"""Bytes of a part."""


def parts(message: bytes, number: int) -> Iterator[tuple[dict[str, object], memoryview]]:
    """Give {"kind": "part", "message": its number, "offset": bytes before the part, "total": bytes in all} with the
    bytes of each part."""
    view = memoryview(message)
    for offset in range(0, len(message), PART):
        part: dict[str, object] = {"kind": "part", "message": number, "offset": offset, "total": len(message)}
        yield part, view[offset : offset + PART]
