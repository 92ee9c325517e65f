"""Every node of a tree is met but for contexts and operators, in the order of the source."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import nki_lab
from nki_lab.source.trees import children, is_signed, numbers_in, without_constants

SILENT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.type_ignore)
EVERYTHING = """
import a.b as c, d
from e import f as g
global h
async def i(j, /, k=1, *l, m: int = 2, n, **o) -> "p":
    nonlocal q
    async with r() as s, t: await u
    async for v in w: pass
    yield from x
@y
class Z(A, metaclass=B): b: int = 1
try: pass
except (C, D) as e: raise E from F
except G: pass
else: del H[1:2:3], I.j
finally: assert K, L
{**m, 1: 2}; {n, *o}; [p for p, in q if r if not s]; {t: u for t in v}; (w for w in x)
match y:
    case {"a": 1, **rest} | [z, *_] | Cls(1, b=2) as whole if guard: pass
    case None | -1: pass
f"{a!r:>{b}} {c}"; lambda d, *, e=1: (f := e); g if h else i; j < k <= l; not m or n and o; p[1, ::2, ...]
while q: continue
for r in s: break
else: t += u @ v
with w as (x, y): return
"""


def met(tree: ast.AST) -> list[ast.AST]:
    stack, found = [tree], []
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(children(node)))
    return found


def expected(tree: ast.AST) -> set[int]:
    return {id(node) for node in ast.walk(tree) if not isinstance(node, SILENT)}


SOURCES = [EVERYTHING, Path(nki_lab.__file__ or "").read_text(encoding="utf-8")]
SOURCES += ["type A[T] = list[T]"] if sys.version_info >= (3, 12) else []


@pytest.mark.parametrize("source", SOURCES)
def test_all_nodes_are_met_once(source: str) -> None:
    tree = ast.parse(source)
    nodes = met(tree)
    assert {id(node) for node in nodes} == expected(tree)
    assert len({id(node) for node in nodes}) == len(nodes)


def test_children_come_in_the_order_of_the_source() -> None:
    tree = ast.parse("f(a, b)[c] = d.e + g(h=i, *j)")
    names = [node.id for node in met(tree) if isinstance(node, ast.Name)]
    assert sorted(names) == sorted("fabcdgij")
    assert names.index("a") < names.index("b") < names.index("c") < names.index("d")


@pytest.mark.parametrize("source", [*SOURCES, "x = [1, -2, +3.5, -y, not 1, 'a', {'k': -1, **z}, -(-1)]"])
def test_constants_and_signed_ones_are_left_out(source: str) -> None:
    tree = ast.parse(source)
    left = {id(node.operand) for node in ast.walk(tree) if is_signed(node) and isinstance(node, ast.UnaryOp)}
    rest = [
        node
        for node in ast.walk(tree)
        if not isinstance(node, (*SILENT, ast.Constant)) and id(node) not in left and not is_signed(node)
    ]
    assert list(map(id, without_constants([tree]))) == list(map(id, rest))


def test_numbers_are_found_in_every_place() -> None:
    assert numbers_in([ast.parse("x[1:2] = f(3, k=-4)\nfor i in range(5): y = {6: 'a', 7.0: True}"), None]) == [
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip
