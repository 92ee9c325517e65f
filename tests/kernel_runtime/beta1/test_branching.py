"""The source says whether a truth value is branched on, or kept as the operand of `and` and `or`."""

from __future__ import annotations

import linecache
from itertools import count
from typing import Any

import pytest

from nki_lab.kernel_runtime.beta1.user_code import branches_on_it
from nki_lab.kernel_runtime.issue import source_location

asked: list[bool | None] = []
_numbers = count()


class Asked:
    """A value that notes how it is asked for its truth. Its own methods count as ours."""

    def __init__(self, truth: bool = True) -> None:
        self.truth = truth

    def __bool__(self) -> bool:
        code = Asked.__bool__.__code__
        source_location._ours[id(code)] = True, code
        asked.append(branches_on_it())
        return self.truth

    def __lt__(self, other: Any) -> Asked:
        return self


def answers_to(statement: str, *, known: bool = True) -> list[bool | None]:
    asked.clear()
    file = f"<statement {next(_numbers)}>"
    if known:
        linecache.cache[file] = len(statement), None, statement.splitlines(keepends=True), file
    names = {"a": Asked(), "no": Asked(False), "f": lambda *_: None}
    exec(compile(statement, file, "exec"), names)
    return list(asked)


@pytest.mark.parametrize(
    ("statement", "answers"),
    [
        ("if a: pass", [True]),
        ("if not a: pass", [True]),
        ("if a < 1: pass", [True]),
        ("if not a < 1: pass", [True]),
        ("if a and a: pass", [True, True]),
        ("if a < 1 and a: pass", [True, True]),
        ("if not (a < 1 and a): pass", [True, True]),
        ("if (no and a) or a: pass", [True, True]),
        ("if (y := a): pass", [True]),
        ("if f(1) if a else a: pass", [True]),
        ("while a: break", [True]),
        ("while not no: break", [True]),
        ("assert a", [True]),
        ("assert a and a < 1, 'text'", [True, True]),
        ("x = 1 if a else 2", [True]),
        ("x = [1 for i in [1, 2] if a]", [True, True]),
        ("x = {1 for i in [1] if a < i if a}", [True, True]),
        ("x = list(1 for i in [1] if a)", [True]),
        ("match 1:\n    case 1 if a: pass", [True]),
        ("x = not a", [True]),
        ("def g():\n    return not a\ng()", [True]),
        ("for i in [1, 2]:\n    if a: continue", [True, True]),
        ("if (\n    a\n    and a\n):\n    pass", [True, True]),
        ("x = a and a", [False]),
        ("x = a or a", [False]),
        ("f(a and a and 3)", [False, False]),
        ("if f(a and a): pass", [False]),
        ("x = 1 if f(a or a) else 2", [False]),
        ("x = (lambda: a and a)()", [False]),
        ("x = a < 1 < 3", [False]),
        ("x = bool(a)", [False]),
        ("x = any([a])", [False]),
    ],
)
def test_a_branch_is_told_from_an_operand(statement: str, answers: list[bool]) -> None:
    assert answers_to(statement) == answers


def test_without_source_text_the_answer_is_unknown() -> None:
    assert answers_to("x = a and a", known=False) == [None]
    assert answers_to("if a: pass", known=False) == [None]


def test_a_mask_without_source_text_is_refused_rather_than_taken_for_true() -> None:
    import neuronxcc.nki.language as nl

    from nki_lab import NkiError

    names: dict[str, Any] = {"nl": nl}
    exec("def branch():\n    i = nl.arange(4)[:, None]\n    if i < 2:\n        return 1", names)
    with pytest.raises(NkiError, match="NKI017"):
        names["branch"]()
