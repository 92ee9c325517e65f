from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import List, Optional

import nki.language as nl

from .kernel_checks import kernel_assert, log, size_of


@dataclass
class Scope:
    name: str
    start: int
    tensors: List[str] = field(default_factory=list)
    peak: int = 0


@dataclass
class Allocation(nl.NKIObject):
    shape: tuple = ()
    dtype: object = None
    bytes: int = 0
    parent: Optional["Allocation"] = None


class MemoryManager:
    """Counts the bytes of each partition, scope by scope."""

    LIMIT = 192 * 1024

    def __init__(self, limit=None, prefix=""):
        self.limit = self.LIMIT if limit is None else min(limit, self.LIMIT)
        self.prefix = prefix
        self.scopes: List[Scope] = [Scope("root", 0)]
        self.used = 0
        self._counter = 0

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def open(self, name):
        self.scopes.append(Scope(name=name, start=self.used))
        return self

    def close(self):
        done = self.scopes.pop()
        kernel_assert(self.used >= done.start, f"scope {done.name} freed {done.start - self.used} bytes twice")
        self.used = done.start
        self.scope.peak = max(self.scope.peak, done.peak)
        return done

    def alloc(self, shape, dtype, name=None, buffer=nl.sbuf):
        free = 1
        for size in shape[1:]:
            free *= size
        made = Allocation(shape=tuple(shape), dtype=dtype, bytes=free * size_of(dtype))
        self.used += made.bytes if buffer == nl.sbuf else 0
        kernel_assert(self.used <= self.limit, f"{self.used} bytes of {self.limit} in {self.scope.name!r}")
        self.scope.peak = max(self.used, self.scope.peak)
        self._counter += 1
        full = f"{self.prefix}{self.scope.name}_{name or 'tile'}_{self._counter}"
        self.scope.tensors.append(full)
        log("%s: %d bytes", full, made.bytes)
        return nl.ndarray(made.shape, dtype=made.dtype, buffer=buffer, name=full)
