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


_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MMAP_MAX: Final = -4
_ARENA_MAX: Final = -8
"""Numbers of glibc's parameters in `malloc.h`."""
_MOST_MAPPED: Final = 65_536
_LARGEST_THRESHOLD: Final = 32 << 20
"""What glibc allows by itself: so many blocks from the system, and, after a large one, smaller ones from its heap."""


def give_blocks_back() -> None:
    """Have glibc give blocks of 128 KiB and more back to the system when they are freed, and its threads share a heap.

    For processes that parse large texts: else memory of the parser stays with them, once for each thread.
    """
    _blocks.returned = True
    _glibc("mallopt")(_MMAP_THRESHOLD, 128 << 10)
    _glibc("mallopt")(_ARENA_MAX, 1)


@dataclass(slots=True)
class _Blocks:
    """Whether this process gives blocks back in any case, the number of `blocks_reused` scopes, and whether the first
    of them changed anything.
    """

    returned: bool = False
    scopes: int = 0
    changed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_blocks: Final = _Blocks()


@contextmanager
def blocks_reused() -> Iterator[None]:
    """Have glibc use the memory of freed arrays for the next ones, and give it back at the end.

    For work that makes tens of arrays of many megabytes one after the other: the system clears each page that it gives,
    which takes as long as the work. Processes that give blocks back in any case go on doing so.
    """
    with _blocks.lock:
        _blocks.scopes += 1
        if _blocks.scopes == 1 and not _blocks.returned:
            _blocks.changed = True
            _glibc("mallopt")(_MMAP_MAX, 0)
            _glibc("mallopt")(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        with _blocks.lock:
            _blocks.scopes -= 1
            if _blocks.scopes == 0 and _blocks.changed:
                _blocks.changed = False
                threshold = 128 << 10 if _blocks.returned else _LARGEST_THRESHOLD
                _glibc("mallopt")(_MMAP_MAX, _MOST_MAPPED)
                _glibc("mallopt")(_MMAP_THRESHOLD, threshold)
                _glibc("mallopt")(_TRIM_THRESHOLD, 2 * threshold)
                _glibc("malloc_trim")(0)


@cache
def _glibc(name: str) -> Callable[..., object]:
    """Return a function of glibc; one that does nothing on other systems."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no library without a name
        return lambda *_arguments: None
    return found
