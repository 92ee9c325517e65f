"""Running a kernel as Python: what it may return, and how everything that goes wrong comes out."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.issue.context import local
from tests.calls import kernel_of, traced

ONE = [np.zeros((4, 6), np.float32)]


def trace(body: str) -> Any:
    text = "def kernel(a):\n" + "\n".join("    " + line for line in body.split("\n")) + "\n"
    return traced(kernel_of(text), ONE, ["float32"], "trn2")


@pytest.mark.parametrize(
    ("result", "count"),
    [
        ("a", 1), ("(a, a)", 2), ("[a, (a, a)]", 3), ("{'x': a, 'y': [a]}", 2), ("None", 0), ("()", 0),
        ("(a, 3, 'text', 1.5, True)", 1),
    ],
)  # fmt: skip
def test_results_are_tensors_in_any_structure(result: str, count: int) -> None:
    program, _ = trace(f"return {result}")
    assert len(program.outputs) == count


def test_constants_are_no_outputs_and_may_be_returned() -> None:
    program, _ = trace("return 3, 0.5, 'text', True, None, a.shape")
    assert not program.outputs


@pytest.mark.parametrize(
    "result", ["nl.ds(0, 4)", "np.zeros(3)", "object()", "{1, 2}", "lambda: 0", "nisa.memset(nl.load(a), 0.0)"]
)
def test_other_results_are_refused(result: str) -> None:
    with pytest.raises(TypeError) as caught:
        trace(f"return {result}")
    assert caught.value.diagnostics[0].code == "NKI014"  # type: ignore[attr-defined]


def test_tensors_returned_from_the_chip_are_remarked() -> None:
    _, builder = trace("x = nl.load(a)\nreturn x")
    assert [(note.code, note.line) for note in builder.notes] == [("NKI607", 2)]
    _, builder = trace("return nl.zeros((4, 6), nl.float32, buffer=nl.shared_hbm)")
    assert not builder.notes


@pytest.mark.parametrize(
    ("body", "kind", "code", "line"),
    [
        ("x = 1\nraise ValueError('no')", ValueError, "NKI007", 3),
        ("assert a.shape[0] == 5, 'five rows'", AssertionError, "NKI007", 2),
        ("return undefined_name", NameError, "NKI102", 2),
        ("return [1, 2][5]", IndexError, "NKI007", 2),
        ("return {}['k']", KeyError, "NKI007", 2),
        ("return 1 / 0", ZeroDivisionError, "NKI007", 2),
        ("return 1 + 'x'", TypeError, "NKI007", 2),
        ("def f():\n    return f()\nreturn f()", RecursionError, "NKI007", 3),
        ("open('/no/such/file')", RuntimeError, "NKI007", 2),
        ("raise StopIteration", StopIteration, "NKI007", 2),
    ],
)
def test_exceptions_of_the_kernel_keep_their_kind_and_gain_a_place(body: str, kind: type, code: str, line: int) -> None:
    with pytest.raises(NkiError) as caught:
        trace(body)
    assert isinstance(caught.value, kind)
    (found,) = caught.value.diagnostics
    assert (found.code, found.line) == (code, line)


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit"])
def test_interrupts_pass_through(kind: str) -> None:
    with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
        trace(f"raise {kind}")
    assert not isinstance(caught.value, NkiError)


def test_a_misspelled_name_gets_a_near_one() -> None:
    with pytest.raises(NkiError) as caught:
        trace("weights = a\nreturn wieghts")
    assert "weights" in str(caught.value)


def test_an_exception_with_a_constructor_of_its_own_is_wrapped() -> None:
    with pytest.raises(NkiError) as caught:
        trace("class Odd(Exception):\n    def __init__(self, a, b):\n        super().__init__(a)\nraise Odd('x', 2)")
    assert caught.value.diagnostics[0].code == "NKI007"
    assert "Odd" in caught.value.diagnostics[0].message


def test_the_builder_is_put_back_whatever_happens() -> None:
    former = local.builder
    for body in ("return a", "raise ValueError"):
        with contextlib.suppress(NkiError):
            trace(body)
        assert local.builder is former


def test_a_refusal_deep_in_a_helper_is_placed_there() -> None:
    text = """
def helper(x):
    nisa.tensor_copy(x, x[:, 0:3])


def kernel(a):
    x = nl.load(a)
    helper(x)
"""
    with pytest.raises(NkiError) as caught:
        traced(kernel_of(text), ONE, ["float32"], "trn2")
    assert caught.value.diagnostics[0].line == 3


def test_what_another_module_raises_tells_where_the_kernel_leads_there() -> None:
    check = kernel_of("def kernel(holds):\n    assert holds is True, 'too many rows'\n", "checks.py")
    kernel = kernel_of("def kernel(a):\n    rows = a.shape[0]\n    check(rows > 1000)\n", "rows.py")
    kernel.__globals__["check"] = check
    with pytest.raises(NkiError) as caught:
        traced(kernel, ONE, ["float32"], "trn2")
    (found,) = caught.value.diagnostics
    assert (found.file, found.line) == ("checks.py", 2)
    assert [(item.span.file, item.span.line) for item in found.related if item.span] == [("rows.py", 3)]
