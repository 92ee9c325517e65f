"""Python's garbage collector in the server: it works while nobody waits for an answer."""

from __future__ import annotations

import asyncio
import gc
import traceback
from typing import Final

from nki_lab.kernel_runtime.garbage import collect_all, give_blocks_back

QUIET_SECONDS: Final = 1.0
"""After so long without a message, garbage is collected,"""
LITTLE: Final = 20_000
"""if there are so many objects more than after the last time,"""
MUCH: Final = 300_000
"""and at once if there are so many."""


def let_go(error: BaseException) -> None:
    """Empty the frames that an error came through: it lives in cycles with them, and a text's tree with it."""
    met: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in met:
        met.add(id(cause))
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


class Collector:
    """Collects the trees of earlier versions of texts: a collection takes longer than most answers."""

    def __init__(self) -> None:
        self._waiting: asyncio.TimerHandle | None = None
        self._last = 0.0

    def begin(self) -> None:
        """Take over from Python; what is loaded stays, and is not looked at again."""
        give_blocks_back()
        gc.collect()
        gc.freeze()
        gc.disable()

    def note(self) -> None:
        """Note that there is work; garbage is collected some time after the last."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if gc.get_count()[0] > MUCH:
            collect_all()
        if self._waiting is None:
            self._waiting = loop.call_later(QUIET_SECONDS, self._collect)

    def _collect(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._last + QUIET_SECONDS - loop.time()
        if left > 0.001:
            self._waiting = loop.call_later(left, self._collect)
            return
        self._waiting = None
        if gc.get_count()[0] > LITTLE:
            collect_all()

    def close(self) -> None:
        """Collect nothing any more."""
        if self._waiting is not None:
            self._waiting.cancel()
