"""The builder that is recording in this thread, and the call-site of whoever called into nki_lab."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from nki_lab.diagnostic import diagnose, error_of

if TYPE_CHECKING:
    from nki_lab.kernel_runtime.frontend.issue import Builder
    from nki_lab.kernel_runtime.frontend.world import Rank


class _Local(threading.local):
    builder: Builder | None = None
    rank: Rank | None = None
    """Which rank of a launch of several the thread specialises."""


local = _Local()


def current(what: str = "this function") -> Builder:
    """The builder of the kernel being specialised; NKI005 outside a kernel."""
    builder = local.builder
    if builder is None:
        raise error_of(
            diagnose(
                "NKI005",
                f"{what} is called outside a kernel",
                limit="nki.isa and nki.language functions record instructions of the kernel that calls them",
                help="decorate the calling function with @nki.jit and call it with arrays",
            )
        )
    return builder


@contextmanager
def recording(builder: Builder) -> Iterator[Builder]:
    """Make `builder` the one that instructions are recorded into; the former one is restored on the way out."""
    former = local.builder
    local.builder = builder
    try:
        yield builder
    finally:
        local.builder = former


_ours: dict[int, tuple[bool, CodeType]] = {}  # by id, since hashing code takes longer than all the rest; kept alive


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of nki_lab, as against the user's."""
    known = _ours.get(id(frame.f_code))
    return (_judged(frame) if known is None else known)[0]


def _judged(frame: FrameType) -> tuple[bool, CodeType]:
    code = frame.f_code
    name = frame.f_globals.get("__name__", "")
    # contextlib: what stands between a function of ours and its caller where a context decorates it.
    ours = isinstance(name, str) and (name in ("nki_lab", "contextlib") or name.startswith("nki_lab."))
    found = _ours[id(code)] = (ours, code)
    return found


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of user code, seen from `depth` frames above this call."""
    return outside(sys._getframe(depth))


def outside(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of user code, `frame` or one that led to it."""
    ours = _ours
    while frame is not None:
        known = ours.get(id(frame.f_code)) or _judged(frame)
        if not known[0]:
            return frame
        frame = frame.f_back
    return None
