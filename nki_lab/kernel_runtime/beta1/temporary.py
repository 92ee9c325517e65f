"""Whether an assigned value is the result of a call or operator in the assignment itself.

`x[...] = nisa.f(...)` makes x the instruction's destination. `y = nisa.f(...); x[...] = y` is a copy: y lives on, and
may have another dtype. The two are told apart by the bytecode of the assignment.
"""

from __future__ import annotations

import dis
from types import CodeType

from nki_lab.kernel_runtime.issue.user_frames import user_frame

_PRODUCERS = ("CALL", "BINARY_OP", "UNARY", "COMPARE_OP", "PRECALL")
_STORES = {"STORE_SUBSCR": 2, "STORE_SLICE": 3, "BINARY_OP": 0}  # how many operands stand above the value

_known: dict[tuple[CodeType, int], bool] = {}


def assigns_temporary() -> bool:
    """Whether the innermost statement of user code stores or adds a value that it has just computed."""
    frame = user_frame()
    if frame is None:
        return False
    key = (frame.f_code, frame.f_lasti)
    known = _known.get(key)
    if known is None:
        known = _known[key] = is_temporary(frame.f_code, frame.f_lasti)
    return known


def is_temporary(code: CodeType, offset: int) -> bool:
    """Whether the value of the store or in-place operator at byte `offset` comes from a call or operator."""
    before: list[dis.Instruction] = []
    for item in dis.get_instructions(code):
        if item.offset >= offset:
            return item.offset == offset and item.opname in _STORES and _produced(before, _STORES[item.opname])
        if item.opname not in ("CACHE", "NOP", "EXTENDED_ARG"):
            before.append(item)
    return False


def _produced(before: list[dis.Instruction], above: int) -> bool:
    """Whether the value below `above` operands was left by a producer: operands are skipped by their stack effects."""
    depth = 0
    while before and depth < above:
        item = before.pop()
        depth += dis.stack_effect(item.opcode, item.arg, jump=False)
    if depth != above or not before:
        return False
    # Python 3.14 spells a subscript as a binary operator.
    return before[-1].opname.startswith(_PRODUCERS) and before[-1].argrepr != "[]"
