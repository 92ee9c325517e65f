"""The builder that is recording in this thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.issue.builder import Builder


class _Local(threading.local):
    builder: Builder | None = None


local = _Local()


def current(what: str = "this function") -> Builder:
    """Return the builder of the kernel being specialised; NKI005 outside a kernel."""
    builder = local.builder
    if builder is None:
        raise coded_error(
            "NKI005",
            f"{what} is called outside a kernel",
            limit="nki.isa and nki.language functions record instructions of the kernel that calls them",
            help="decorate the calling function with @nki.jit and call it with arrays",
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
