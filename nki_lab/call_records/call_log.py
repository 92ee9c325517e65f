"""The helpers that one run of a kernel calls, with their arguments, noted where the run first reaches a new place.

A builder hands over the user's frame when it meets a place in the source for the first time. Therefore the cost does
not grow with the number of instructions, and of all calls of a helper those are noted under which it reached a place
that the run had not reached before.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Final, NamedTuple

from nki_lab.call_records.store import key_of
from nki_lab.call_records.values import CHANGED, Data, encoded, has_tensor, is_mutable, unchanged
from nki_lab.kernel_runtime.issue.source_location import is_ours, site_at
from nki_lab.source.module import module_at
from nki_lab.source.paths import scope_node
from nki_lab.source.trees import FUNCTIONS, FunctionNode
from nki_lab.source.uses import Binding, bindings, changes_items

MOST_FRAMES: Final = 64
"""Frames between an instruction and its kernel that are looked at."""
MOST_NOTED: Final = 64
"""Calls of one function that are noted in one run."""

_CHANGING: Final = frozenset({
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault", "sort", "reverse",
    "setattr", "__setattr__",
})  # fmt: skip


class NotedCall(NamedTuple):
    """A call of a function at the top level of a file, with its arguments as data."""

    code: CodeType
    arguments: Mapping[str, Data]


class _Body(NamedTuple):
    """The parameters of a function, and what its source does with them.

    `stores` are the places at which a name is bound again, None where there is no source text to tell. With `changes`
    it changes containers or objects. `code` stays alive, so that its id does.
    """

    code: CodeType
    parameters: tuple[str, ...]
    stores: tuple[Binding, ...] | None
    changes: bool

    def bound_again(self, offset: int) -> frozenset[str]:
        """Return the parameters that may no longer have the caller's value at an offset."""
        if self.stores is None:
            return frozenset(self.parameters)
        site = site_at(self.code, offset)
        place = site.line, site.column, site.end_line, site.end_column
        return frozenset(item.name for item in self.stores if item.reaches(place))


_bodies: dict[int, _Body] = {}
_MOST_BODIES: Final = 256  # each notebook cell brings new ones


def _body_of(code: CodeType, offset: int) -> _Body:
    known = _bodies.get(id(code))
    if known is None:
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        names = code.co_varnames[:count]
        node = _function_of(code, offset)
        stores = None if node is None else tuple(item for item in bindings(node) if item.name in names)
        changes = node is None or bool(_CHANGING & {*code.co_names}) or changes_items(node)
        if len(_bodies) >= _MOST_BODIES:
            del _bodies[next(iter(_bodies))]
        known = _bodies[id(code)] = _Body(code, names, stores, changes)
    return known


def _function_of(code: CodeType, offset: int) -> FunctionNode | None:
    module = module_at(code.co_filename)
    if module is None:
        return None
    site = site_at(code, offset)
    place = site.line, site.column, site.end_line, site.end_column
    node = scope_node(module, code.co_name, code.co_firstlineno, place)
    return node if isinstance(node, FUNCTIONS) else None


class CallLog:
    """The calls that one run makes. `note` is the hook of its builder, `calls` ends it.

    The frames of `outermost` code, and those outside of them, are not looked at: the kernel's own.
    """

    def __init__(self, outermost: Iterable[CodeType | None]) -> None:
        self._outermost = {id(code) for code in outermost if code is not None}
        self._noted: dict[tuple[int, str], tuple[NotedCall, dict[str, object]]] = {}
        self._counts: dict[int, int] = {}
        self._seen: set[tuple[int, ...]] = set()

    def note(self, frame: FrameType | None) -> None:
        """Note the calls that led to a place which the run reaches for the first time."""
        for _ in range(MOST_FRAMES):
            if frame is None or id(frame.f_code) in self._outermost:
                return
            code = frame.f_code
            if not is_ours(frame) and code.co_qualname == code.co_name and code.co_name.isidentifier():
                self._enter(frame, code)
            frame = frame.f_back

    def _enter(self, frame: FrameType, code: CodeType) -> None:
        if self._counts.get(id(code), 0) >= MOST_NOTED:
            return
        body, own = _body_of(code, frame.f_lasti), frame.f_locals
        again = body.bound_again(frame.f_lasti)
        values = {name: own[name] for name in body.parameters if name in own and name not in again}
        call = (id(code), len(again), *(id(value) for value in values.values()))
        if call in self._seen:
            return
        self._seen.add(call)
        changing = {name: value for name, value in values.items() if is_mutable(value)}
        data: dict[str, Data] = {}
        for name in body.parameters:
            known = name in values and not (body.changes and name in changing)
            data[name] = encoded(values[name]) if known else CHANGED
        key = (id(code), key_of(data, (), "", inner=True))
        if key not in self._noted and any(map(has_tensor, data.values())):
            self._noted[key] = NotedCall(code, data), changing
            self._counts[id(code)] = self._counts.get(id(code), 0) + 1

    def calls(self) -> list[NotedCall]:
        """Return the calls. A part of an argument that has changed since then is unknown: it may have before, too."""
        found = []
        for call, changing in self._noted.values():
            later = {name: unchanged(call.arguments[name], encoded(value)) for name, value in changing.items()}
            found.append(call._replace(arguments={**call.arguments, **later}) if later else call)
        self._noted.clear()
        return found
