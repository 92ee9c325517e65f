"""Python's garbage collector, told to look less often while objects that stay are made by the hundred thousand."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 100_000
"""New objects between two looks. Its default of some hundred makes tracing a sixth slower: each look at all that is
there finds a program that stays."""

_lock: Final = threading.Lock()
_nested = 0
_former: tuple[int, int, int] = gc.get_threshold()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage after every `_OBJECTS` new objects only; as before when the last one has left."""
    global _nested, _former
    with _lock:
        _nested += 1
        if _nested == 1:
            _former = gc.get_threshold()
            if 0 < _former[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_former[1:])
    try:
        yield
    finally:
        with _lock:
            _nested -= 1
            if _nested == 0:
                gc.set_threshold(*_former)
