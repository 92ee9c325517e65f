"""Read from the bytecode of the user's code how it uses a value: to branch on it, or to assign what it just computed.

Python asks for a truth value to branch on it, or to give the operand of an `and` or `or`. `x[...] = nisa.f(...)` makes
x the instruction's destination; `y = nisa.f(...); x[...] = y` is a copy: y lives on, and may have another dtype.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Final

from nki_lab.kernel_runtime.issue.source_location import user_frame

_WITHOUT_EFFECT: Final = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "NOT_TAKEN"})
_PRODUCERS: Final = ("CALL", "BINARY_OP", "UNARY", "COMPARE_OP", "PRECALL")
_STORES: Final = {"STORE_SUBSCR": 2, "STORE_SLICE": 3, "BINARY_OP": 0}  # how many operands stand above the value


def at_user_code(test: Callable[[CodeType, int], bool]) -> bool:
    """Return whether the running instruction of the innermost user code passes a test: one of those below."""
    frame = user_frame()
    return frame is not None and test(frame.f_code, frame.f_lasti)


def _instructions(code: CodeType) -> list[dis.Instruction]:
    return [item for item in dis.get_instructions(code) if item.opname not in _WITHOUT_EFFECT]


@cache
def is_branch(code: CodeType, offset: int) -> bool:
    """Return whether the instruction at byte `offset` jumps on a value, or inverts it, and then drops it.

    An `and` that is a value keeps it: Python 3.11 has an instruction that jumps and keeps, later ones copy first.
    """
    steps = _instructions(code)
    at = next((i for i, item in enumerate(steps) if item.offset == offset), -1)
    if at < 0:
        return False
    name = steps[at].opname
    if name == "UNARY_NOT":
        return True
    if name in ("TO_BOOL", "COMPARE_OP"):  # Python 3.13 asks before it jumps, or where it has compared
        name = steps[at + 1].opname if at + 1 < len(steps) else ""
    copied = at > 0 and steps[at - 1].opname == "COPY"
    return not copied and (name.startswith("POP_JUMP") or name == "UNARY_NOT")


@cache
def is_temporary(code: CodeType, offset: int) -> bool:
    """Return whether the value of the store or in-place operator at byte `offset` comes from a call or operator."""
    before = [item for item in _instructions(code) if item.offset <= offset]
    if not before or before[-1].offset != offset or before[-1].opname not in _STORES:
        return False
    above = _STORES[before.pop().opname]
    depth = 0
    while before and depth < above:  # operands are skipped by their stack effects
        item = before.pop()
        depth += dis.stack_effect(item.opcode, item.arg, jump=False)
    # Python 3.14 spells a subscript as a binary operator.
    found = depth == above and bool(before)
    return found and before[-1].opname.startswith(_PRODUCERS) and before[-1].argrepr != "[]"
