"""Python's own bytecode says whether a truth value is branched on, or kept as the operand of `and` and `or`."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from nki_lab.kernel_runtime.beta1.bytecode import is_branch

asked: list[bool] = []


class Asked:
    """A value that notes how it is asked for its truth."""

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        asked.append(is_branch(frame.f_code, frame.f_lasti))
        return True

    def __lt__(self, other: Any) -> Asked:
        return self


@pytest.mark.parametrize(
    ("statement", "answers"),
    [
        ("if a: pass", [True]),
        ("if not a: pass", [True]),
        ("if a and a: pass", [True, True]),
        ("while a: break", [True]),
        ("assert a", [True]),
        ("x = 1 if a else 2", [True]),
        ("x = not a", [True]),
        ("for i in [1, 2]:\n    if a: continue", [True, True]),
        ("x = a and a", [False]),
        ("x = a or a", [False]),
        ("f(a and a and 3)", [False, False]),
        ("x = a < 1 < 3", [False]),
        ("x = bool(a)", [False]),
        ("x = any([a])", [False]),
    ],
)
def test_a_jump_is_told_from_an_operand(statement: str, answers: list[bool]) -> None:
    asked.clear()
    names = {"a": Asked(), "f": lambda *_: None}
    exec(compile(statement, "snippet", "exec"), names)
    assert asked == answers


def test_a_place_that_is_no_instruction_is_no_branch() -> None:
    assert not is_branch(test_a_place_that_is_no_instruction_is_no_branch.__code__, -1)
