"""The builder that is recording in this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.source_location import placed, site_at, user_frame


class _Local(threading.local):
    builder: Builder | None = None
    evaluates: bool = False  # source is evaluated: the frames of this thread are not those of the calls in it


local = _Local()


def current(what: str = "this function") -> Builder:
    """Return the builder of the kernel being specialised; NKI005 outside a kernel."""
    builder = local.builder
    if builder is None:
        raise outside_kernel(what)
    return builder


def outside_kernel(what: str) -> NkiError:
    """Return the error of a call that needs a kernel around it, at the user's line; the evaluator places it itself."""
    frame = None if local.evaluates else user_frame(2)
    function = "" if frame is None else frame.f_code.co_name
    item = diagnose(
        "NKI005",
        f"{what} is called outside a kernel",
        limit="nki.isa and nki.language functions record instructions of the kernel that calls them",
        help=f"decorate {function} with @nki.jit, or call it from a kernel"
        if function.isidentifier()
        else "move it into a function decorated with @nki.jit, and call that with arrays",
    )
    return error_of(item if frame is None else placed(item, site_at(frame.f_code, frame.f_lasti)))


@contextmanager
def recording(builder: Builder) -> Iterator[Builder]:
    """Make `builder` the one that instructions are recorded into; the former one is restored on the way out."""
    former = local.builder
    local.builder = builder
    try:
        yield builder
    finally:
        local.builder = former


@contextmanager
def evaluation() -> Iterator[None]:
    """While this lasts, calls come from source that is evaluated and not run by Python."""
    former = local.evaluates
    local.evaluates = True
    try:
        yield
    finally:
        local.evaluates = former
