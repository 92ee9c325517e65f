"""The readers of open texts: each takes in what has changed since it was last asked."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from nki_lab.query.navigation.reading import Reader


@dataclass(slots=True)
class Readers:
    """The readers of open texts, by the URIs of their files or notebooks; one text is read at a time."""

    readers: dict[str, Reader] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def drop(self, opened: set[str]) -> None:
        """Forget texts that are no longer open, unless one is being read."""
        if self.readers.keys() <= opened or not self.lock.acquire(blocking=False):
            return
        for uri in self.readers.keys() - opened:
            del self.readers[uri]
        self.lock.release()
