"""Python's garbage collector, told to look less often while objects that stay are made by the hundred thousand."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 500_000
"""New objects between two looks. Its default of some hundred makes tracing a sixth slower: each look at all that is
there finds a program that stays."""


class _Guests:
    """How many are inside, and the threshold that was there before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.former: tuple[int, int, int] = gc.get_threshold()


_guests: Final = _Guests()


@contextmanager
def gc_relaxed() -> Iterator[None]:
    """Collect garbage after every `_OBJECTS` new objects only; as before when the last one has left."""
    with _guests.lock:
        _guests.count += 1
        if _guests.count == 1:
            _guests.former = gc.get_threshold()
            if 0 < _guests.former[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_guests.former[1:])
    try:
        yield
    finally:
        with _guests.lock:
            _guests.count -= 1
            if _guests.count == 0:
                gc.set_threshold(*_guests.former)
