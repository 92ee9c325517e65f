"""From a place in the source to the expression at fault."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError, diagnose
from nki_lab.kernel_runtime.ir import Site
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.source.module import argument_of
from tests.calls import kernel_of, traced


def fault(call: str, *, before: str = "") -> tuple[str, str]:
    """The text that the refusal of a call points at, and the operand."""
    lines = ["def kernel(a):", "    tile = nl.ndarray((8, 6), nl.float32)", *before.splitlines(), f"    {call}", ""]
    text = "\n".join(lines)
    with pytest.raises(NkiError) as caught:
        traced(kernel_of(text, f"<{hash(text)}>"), [np.zeros((8, 6), np.float32)], ["float32"], "trn2")
    (found,) = caught.value.diagnostics
    assert found.span is not None
    source = text.splitlines()
    span = found.span
    if span.line == span.end_line:
        return source[span.line - 1][span.column - 1 : span.end_column - 1], found.operand
    parts = source[span.line - 1 : span.end_line]
    return "\n".join([parts[0][span.column - 1 :], *parts[1:-1], parts[-1][: span.end_column - 1]]), found.operand


@pytest.mark.parametrize(
    ("call", "pointed"),
    [
        ("nisa.tensor_copy(tile, tile[:, 0:5])", "tile[:, 0:5]"),
        ("nisa.tensor_copy(src=tile[:, 0:5], dst=tile)", "tile[:, 0:5]"),
        ("nisa.tensor_copy(\n        tile,\n        tile[:, 0:5])", "tile[:, 0:5]"),
        ("nisa.tensor_copy(tile, tile[\n        :, 0:5])", "tile[\n        :, 0:5]"),
        ("nisa.tensor_copy(tile); 'äöü'", "nisa.tensor_copy(tile)"),
        ("'äöü', nisa.tensor_copy(tile, a)", "a"),
        ("nisa.tensor_copy(*[tile, a])", "nisa.tensor_copy(*[tile, a])"),
        ("nisa.tensor_copy(**{'dst': tile, 'src': a})", "nisa.tensor_copy(**{'dst': tile, 'src': a})"),
        ("nl.add(tile, tile[:, 0:5])", "tile[:, 0:5]"),
        ("nl.load(nl.load(a)); nl.load(3)", "3"),
        ("nl.ndarray((8, -1), nl.float32)", "(8, -1)"),
        ("[nisa.memset(tile, value='x') for _ in range(2)]", "'x'"),
        ("nl.softmax(a, -1, nl.bfloat16)", "nl.softmax(a, -1, nl.bfloat16)"),
        ("nl.exp(a)", "nl.exp(a)"),
        ("(lambda *given: nisa.tensor_copy(*given))(tile, a)", "nisa.tensor_copy(*given)"),
    ],
)
def test_it_points_at_the_argument(call: str, pointed: str) -> None:
    assert fault(call)[0] == pointed


def test_a_name_bound_before_is_called_by_its_own_name() -> None:
    lines = "def kernel(a):\n    small = nl.ndarray((8, 5), nl.float32)\n    nisa.tensor_copy(nl.load(a), small)\n"
    with pytest.raises(NkiError) as caught:
        traced(kernel_of(lines, "<named>"), [np.zeros((8, 6), np.float32)], ["float32"], "trn2")
    assert caught.value.diagnostics[0].note.startswith("small: (8, 5) float32 in SBUF")


def call_of(text: str) -> ast.Call:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    return node


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("f(1, 2)", "b", "2"), ("f(1, b=2)", "b", "2"), ("f(b=2, a=1)", "a", "1"), ("f(1)", "b", None),
        ("f(*x)", "a", None), ("f(1, *x)", "b", None), ("f(**x)", "a", None), ("f(1, 2)", "c", None),
    ],
)  # fmt: skip
def test_arguments_by_position_and_by_keyword(text: str, name: str, found: str | None) -> None:
    node = argument_of(call_of(text), name, ("a", "b"))
    assert (None if node is None else ast.unparse(node)) == found


@pytest.mark.parametrize(
    "site",
    [
        Site("", 0, 0, 0, 0, ""),  # no source at all
        Site("<nothing of that name>", 3, 4, 3, 9, "f"),  # none that can be read
        Site(__file__, 10_000, 0, 10_000, 5, "f"),  # a line that is not there
    ],
)
def test_a_place_that_cannot_be_read_is_kept_as_it_is(site: Site) -> None:
    item = diagnose("NKI203", "nisa.f: x", operand="dst")
    found = placed(item, site)
    assert found.message == item.message
    assert (found.span is None) == (not site.file)


def test_a_diagnostic_with_a_place_keeps_it() -> None:
    from nki_lab.diagnostic import Span

    span = Span("<there>", 1, 1, 1, 2)
    item: Any = diagnose("NKI203", "m", operand="dst", span=span)
    assert placed(item, Site(__file__, 3, 0, 3, 5, "f")).span is span
