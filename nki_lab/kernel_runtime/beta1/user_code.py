"""How the running line of the user's code uses a value, from its source text; None where that is not at hand."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Final

from nki_lab.kernel_runtime.issue.source_location import site_at, user_frame
from nki_lab.source.module import ModuleSource, module_at
from nki_lab.source.paths import scope_node
from nki_lab.source.trees import Extent
from nki_lab.source.uses import branches, temporaries

Places = Callable[[ModuleSource], frozenset[Extent]]


def computes_what_it_assigns() -> bool | None:
    """Return whether the running assignment of the innermost user code stores what it has just computed."""
    return _is_at(temporaries)


def branches_on_it() -> bool | None:
    """Return whether the innermost user code branches on the value whose truth it asks for, or inverts it."""
    return _is_at(branches)


_MOST: Final = 1 << 14
_answers: dict[tuple[Places, int, int], tuple[bool | None, CodeType]] = {}  # by id of the code, which is kept alive


def _is_at(places: Places) -> bool | None:
    frame = user_frame()
    if frame is None:
        return False
    code, offset = frame.f_code, frame.f_lasti
    known = _answers.get((places, id(code), offset))
    if known is None:
        if len(_answers) >= _MOST:
            _answers.clear()
        known = _answers[places, id(code), offset] = _find(places, code, offset), code
    return known[0]


def _find(places: Places, code: CodeType, offset: int) -> bool | None:
    site = site_at(code, offset)
    place = site.line, site.column, site.end_line, site.end_column
    module = module_at(site.file)
    if module is None or not site.end_column:  # no text, or an interpreter that leaves columns out
        return None
    if scope_node(module, code.co_name, code.co_firstlineno, place) is None:
        return None  # another text of the same name: `exec` calls all of its texts <string>
    return place in places(module)
