"""How the running line of the user's code uses a value, from its source text; None where that is not at hand."""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.kernel_runtime.issue.source_location import site_at, user_frame
from nki_lab.source.module import ModuleSource, module_at
from nki_lab.source.trees import Extent
from nki_lab.source.uses import branches, temporaries


def computes_what_it_assigns() -> bool | None:
    """Return whether the running assignment of the innermost user code stores what it has just computed."""
    return _is_at(temporaries)


def branches_on_it() -> bool | None:
    """Return whether the innermost user code branches on the value whose truth it asks for, or inverts it."""
    return _is_at(branches)


def _is_at(places: Callable[[ModuleSource], frozenset[Extent]]) -> bool | None:
    frame = user_frame()
    if frame is None:
        return False
    site = site_at(frame.f_code, frame.f_lasti)
    module = module_at(site.file)
    if module is None or not site.end_column:  # no text, or an interpreter that leaves columns out
        return None
    return (site.line, site.column, site.end_line, site.end_column) in places(module)
