"""Whether Python asks for a truth value to branch on it, or to give the operand of an `and` or `or`.

The two are told apart by the bytecode of the user's code.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Final

from nki_lab.kernel_runtime.issue.user_frames import user_frame

_known: dict[tuple[CodeType, int], bool] = {}
_ASIDE: Final = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "NOT_TAKEN"})


def branches() -> bool:
    """Whether the innermost user code tests what it asks about: in `if`, `while`, `assert`, `a if b else c`, `not`."""
    frame = user_frame()
    if frame is None:
        return False
    key = (frame.f_code, frame.f_lasti)
    known = _known.get(key)
    if known is None:
        known = _known[key] = is_branch(frame.f_code, frame.f_lasti)
    return known


def is_branch(code: CodeType, offset: int) -> bool:
    """Whether the instruction at byte `offset` jumps on a value, or inverts it, that is then gone.

    An `and` that is a value keeps it: Python 3.11 has an instruction that jumps and keeps, later ones copy first.
    """
    steps = [item for item in dis.get_instructions(code) if item.opname not in _ASIDE]
    at = next((i for i, item in enumerate(steps) if item.offset == offset), -1)
    if at < 0:
        return False
    if steps[at].opname == "TO_BOOL":  # Python 3.13 asks before it jumps
        follows = steps[at + 1].opname if at + 1 < len(steps) else ""
        kept = at > 0 and steps[at - 1].opname == "COPY"
        return not kept and (follows.startswith("POP_JUMP") or follows == "UNARY_NOT")
    if steps[at].opname == "UNARY_NOT":
        return True
    return steps[at].opname.startswith("POP_JUMP") and not (at > 0 and steps[at - 1].opname == "COPY")
