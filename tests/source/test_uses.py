"""What a function binds again, by places: the recorder of calls must know which arguments are still the caller's."""

from __future__ import annotations

import ast
import textwrap

import pytest

from nki_lab.source.trees import extent
from nki_lab.source.uses import bindings, changes_items


def bound_at(body: str, place: str = "HERE()") -> set[str]:
    tree = ast.parse("def f(a, b, *rest, **more):\n" + textwrap.indent(body, "    "))
    node = tree.body[0]
    assert isinstance(node, ast.FunctionDef)
    call = next(item for item in ast.walk(tree) if isinstance(item, ast.Call) and ast.unparse(item) == place)
    return {item.name for item in bindings(node) if item.reaches(extent(call))}


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("HERE()\na = 1", set()),
        ("a = 1\nHERE()", {"a"}),
        ("a = HERE()", set()),
        ("a += HERE()", set()),
        ("a: int = HERE()", set()),
        ("a, (b, *rest) = 1, (2, 3)\nHERE()", {"a", "b", "rest"}),
        ("for a in HERE(): pass", set()),
        ("for a in b:\n    HERE()", {"a"}),
        ("for i in b:\n    HERE()\n    a = 1", {"a", "i"}),
        ("while b:\n    HERE()\n    if b:\n        del a", {"a"}),
        ("while HERE():\n    a = 1", {"a"}),
        ("with b as a:\n    HERE()", {"a"}),
        ("with HERE() as a: pass", set()),
        ("with b as a, HERE(): pass", {"a"}),
        ("if (a := 1):\n    HERE()", {"a"}),
        ("c = (a := 1) + HERE()", {"a"}),
        ("c = [a := i for i in b]\nHERE()", {"a", "c"}),
        ("c = [a for a in b]\nHERE()", {"c"}),
        ("try:\n    pass\nexcept E as a:\n    HERE()", {"a"}),
        ("try:\n    a = 1\nfinally:\n    HERE()", {"a"}),
        ("match b:\n    case [a, *rest]:\n        HERE()", {"a", "rest"}),
        ("match b:\n    case {1: a, **more} if HERE(): pass", {"a", "more"}),
        ("import os.path as a, b.c\nHERE()", {"a", "b"}),
        ("def a(): b = 1\nHERE()", {"a"}),
        ("class a:\n    b = 1\nHERE()", {"a"}),
        ("def g():\n    nonlocal a\n    a = 1\nHERE()", {"a", "g"}),
        ("for i in b:\n    a = 1\nHERE()", {"a", "i"}),
        ("if b:\n    a = 1\nelse:\n    HERE()", {"a"}),
    ],
)
def test_names_are_bound_again_before_a_place_or_by_a_loop_around_it(body: str, names: set[str]) -> None:
    assert bound_at(body) == names


@pytest.mark.parametrize(
    ("body", "answer"),
    [("a.x = 1", True), ("a[0] += 1", True), ("del a[0]", True), ("for a[0] in b: pass", True), ("c = a[0].x", False)],
)
def test_changes_of_items_and_attributes_are_seen(body: str, answer: bool) -> None:
    node = ast.parse(f"def f(a, b):\n    {body}").body[0]
    assert isinstance(node, ast.FunctionDef)
    assert changes_items(node) is answer
