"""Python's garbage collector: slowed down while objects that stay are made by the hundred thousand, and thorough."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final

_OBJECTS: Final = 500_000
"""New objects between two collections. Python's default of some hundred makes tracing a sixth slower: each collection
visits a whole program that stays."""


@dataclass(eq=False)
class _ActiveScopes:
    """The number of `gc_relaxed` scopes, and the threshold from before the first of them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0
    former: tuple[int, int, int] = (0, 0, 0)


_active: Final = _ActiveScopes()


@contextmanager
def gc_relaxed() -> Iterator[None]:
    """Collect garbage after every `_OBJECTS` new objects only; as before when the last scope has ended."""
    with _active.lock:
        _active.count += 1
        if _active.count == 1:
            _active.former = gc.get_threshold()
            if 0 < _active.former[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_active.former[1:])
    try:
        yield
    finally:
        with _active.lock:
            _active.count -= 1
            if _active.count == 0:
                gc.set_threshold(*_active.former)


def collect_all() -> None:
    """Collect garbage, and give the memory that is free then back to the system, where its C library can."""
    gc.collect()
    _glibc("malloc_trim")(0)


_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Numbers of glibc's parameters in `malloc.h`."""


def give_blocks_back() -> None:
    """Have glibc give blocks of 128 KiB and more back to the system when they are freed, and its threads share a heap.

    For processes that parse large texts: else memory of the parser stays with them, once for each thread.
    """
    _glibc("mallopt")(_MMAP_THRESHOLD, 128 << 10)
    _glibc("mallopt")(_ARENA_MAX, 1)


@cache
def _glibc(name: str) -> Callable[..., object]:
    """Return a function of glibc; one that does nothing on other systems."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no library without a name
        return lambda *_arguments: None
    return found
