"""The helpers that one run of a kernel calls, with their arguments, noted where the run first reaches a new place.

A builder hands over the user's frame when it meets a place in the source for the first time. Therefore the cost does
not grow with the number of instructions, and of all calls of a helper those are noted under which it reached a place
that the run had not reached before.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Final, NamedTuple

from nki_lab.call_records.store import key_of
from nki_lab.call_records.values import CHANGED, Data, encoded, has_tensor, is_mutable, unchanged
from nki_lab.kernel_runtime.issue.source_location import is_ours

MOST_FRAMES: Final = 64
"""Frames between an instruction and its kernel that are looked at."""
MOST_NOTED: Final = 64
"""Calls of one function that are noted in one run."""

_STORES: Final = frozenset({"STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF"})
_CHANGES: Final = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR"})
_CHANGING: Final = frozenset({
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault", "sort", "reverse",
    "setattr", "__setattr__",
})  # fmt: skip


class NotedCall(NamedTuple):
    """A call of a function at the top level of a file, with its arguments as data."""

    code: CodeType
    arguments: Mapping[str, Data]


class _Body(NamedTuple):
    """The parameters of a function, and what its code does with them.

    `stores` are the offsets at which a name is bound again, `jumps` the loops' ways back, from and to. With `changes`
    it changes containers or objects. `code` stays alive, so that its id does.
    """

    code: CodeType
    parameters: tuple[str, ...]
    stores: tuple[tuple[int, str], ...]
    jumps: tuple[tuple[int, int], ...]
    changes: bool

    def bound_again(self, offset: int) -> frozenset[str]:
        """Return the parameters that may no longer have the caller's value at an offset."""
        return frozenset(
            name
            for at, name in self.stores
            if at < offset or any(start > at and end <= offset for start, end in self.jumps)
        )


_bodies: dict[int, _Body] = {}


def _body_of(code: CodeType) -> _Body:
    known = _bodies.get(id(code))
    if known is None:
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        names = code.co_varnames[:count]
        steps = list(dis.get_instructions(code))
        stores = tuple((step.offset, step.argval) for step in steps if step.opname in _STORES and step.argval in names)
        jumps = tuple(
            (step.offset, step.argval)
            for step in steps
            if "JUMP" in step.opname and isinstance(step.argval, int) and step.argval <= step.offset
        )
        changes = bool(_CHANGING & {*code.co_names}) or any(step.opname in _CHANGES for step in steps)
        known = _bodies[id(code)] = _Body(code, names, stores, jumps, changes)
    return known


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
        body, own = _body_of(code), frame.f_locals
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
