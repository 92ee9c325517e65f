"""Statements around a line, and nodes around a place, against looking at all of them."""

from __future__ import annotations

import ast
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.source.nesting import Nesting
from nki_lab.source.paths import path_to
from nki_lab.source.trees import extent

INTERVALS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20)).map(lambda it: (it[0], sum(it))), max_size=30)
FILES = sorted(Path(__file__).parents[1].glob("kernels/*.py"))[::9]


@given(INTERVALS, st.integers(0, 70))
def test_the_parts_around_a_line_are_those_that_hold_it(parts: list[tuple[int, int]], line: int) -> None:
    found = Nesting(parts, lambda part: part).around(line)
    assert sorted(found) == sorted(part for part in parts if part[0] <= line <= part[1])
    assert [first for first, _ in found] == sorted(first for first, _ in found)


LONG = f"""
x = [{", ".join(f"f({i}, a.b)" for i in range(30))}]
y = g({", ".join(f"p{i}=q.r" for i in range(30))}, **z.z)
d = {{{", ".join(f"k.k: {i}" for i in range(20))}, **m.n}}
if a.b:
    pass
elif c.d:
    with e.f as g: h.i
""" + "\n".join(f"try:\n    a.b{i}\nexcept C.d: e.f\nelse: [u.v for u in w.x]" for i in range(20))


@pytest.mark.parametrize("text", [LONG, *(path.read_text() for path in FILES)], ids=["long", *(p.stem for p in FILES)])
def test_the_nodes_around_one_are_those_that_it_lies_in(text: str) -> None:
    tree = ast.parse(text)
    parents = {inner: outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Call):
            outer: list[ast.AST] = [node]
            while parents[outer[-1]] is not tree:
                outer.append(parents[outer[-1]])
            found = takewhile(lambda part, node=node: part is not node, path_to(tree, extent(node)))
            assert list(found) == outer[:0:-1]
