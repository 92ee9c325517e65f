"""NKI101 while a text is typed: what has compiled before is left out, and the compiler's verdict stays the same."""

from __future__ import annotations

import ast
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.query import Document
from nki_lab.rules import syntax_error
from tests.scale import scaled

BODY = """\
def kernel(x, n):
    total = 0
    start = 1
    limit: int = 4
    step = 2
    first = 1
    second = 2
    third = 3
    fourth = 4
    for i in range(n):
        y = x + i
        z = y
        total += y
        z += 1
        if i > limit:
            break
        else:
            total -= 1
    try:
        total = total / n
    except ZeroDivisionError:
        total = n
    with open(x) as file:
        match n:
            case 1:
                n = 2
            case _:
                n = 3
    def inner(a):
        b = a + 1
        c = b
        d = c
        return b
    class Inner:
        c = 4
        d = 5
        e = 6
    return total
"""


def verdict(text: str) -> str | None:
    """Return what Python's compiler says of a text, in a notebook cell, which may await."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "k.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError as error:
            return error.msg
    return None


def found(document: Document, text: str) -> list[tuple[int, int, str]]:
    items = [item for item in document.update(text) if item.code == "NKI101"]
    return [(item.line, item.column, item.message) for item in items]


def typed(*texts: str) -> None:
    """Each text has the findings of the same text that is read afresh, and some where Python does not take it."""
    document = Document("k.py")
    for text in texts:
        now = found(document, text)
        assert now == found(Document("k.py"), text)
        assert bool(now) == (verdict(text) is not None)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("    for i in range(n):", "    if n:"),
        ("    for i in range(n):", "    for i, i in range(n), *n:"),
        ("def kernel(x, n):", "def kernel(x, x, n):"),
        ("def kernel(x, n):", "class kernel:"),
        ("def kernel(x, n):", "if n:"),
        ("def kernel(x, n):", "async def kernel(x, n):"),
        ("    limit: int = 4", "    global total"),
        ("    limit: int = 4", "    global limit"),
        ("    limit: int = 4", "    global step"),
        ("    limit: int = 4", "    nonlocal total"),
        ("    limit: int = 4", "    await n"),
        ("    limit: int = 4", "    __debug__ = 4"),
        ("    limit: int = 4", "    f(a=1, a=2)"),
        ("    limit: int = 4", "    from x import *"),
        ("    limit: int = 4", "    continue"),
        ("    limit: int = 4", "    yield"),
        ("        z = y", "        return 1"),
        ("        z = y", "        global y"),
        ("        z = y", "        z = [total := 1 for total in x]"),
        ("        d = 5", "        return 4"),
        ("        d = 5", "        yield 4"),
        ("        d = 5", "        nonlocal total"),
        ("        d = 5", "        global c"),
        ("        c = b", "        nonlocal total\n        total = a"),
        ("        c = b", "        nonlocal unknown"),
        ("        c = b", "        nonlocal b"),
        ("        c = b", "        global total"),
        ("        c = b", "        c = [await a for a in x]"),
        ("        return b", "        return *b"),
        ("            case 1:", "            case m:"),
        ("    except ZeroDivisionError:", "    except:"),
        ("        total = n", "        total = (n := 1)"),
    ],
)
def test_a_changed_line_is_judged_with_those_around_it(line: str, instead: str) -> None:
    changed = BODY.replace(line + "\n", instead + "\n", 1)
    assert changed != BODY
    more = changed.replace("third = 3", "third = 4")
    typed(BODY, changed, more, BODY, changed + "\nx = 1\n", BODY + "\nx = 2\n")


MODULE = "if a:\n    x = 1\n" + "".join(f"y{number} = {number}\n" for number in range(6))


@pytest.mark.parametrize(
    "declared", ["global x\n", "if a:\n    global x\n", "for i in a:\n    if i:\n        global x\n"]
)
def test_what_a_module_declares_global_later_is_held_against_what_has_compiled(declared: str) -> None:
    typed(MODULE, MODULE + declared, MODULE, MODULE + declared + "z = 1\n")
    typed("x = 2\n", "x = 2\n" + declared)


def test_what_was_not_compiled_is_looked_at_when_it_can_be() -> None:
    lines = "".join(f"    v{number} = {number}\n" for number in range(8)).replace("v3 = 3", "__debug__ = 3")
    call = f"    f({', '.join(f'k{number}=1' for number in range(1001))})\n"
    long = "def g(a):\n" + lines + call + lines.replace("v", "w").replace("__debug__", "u")
    document = Document("k.py")
    assert not found(document, long)  # Python's compiler would compare each keyword with all others
    short = long.replace(call, "    f(k=1)\n")
    assert found(document, short) == found(Document("k.py"), short) != []


def test_python_refuses_some_of_them() -> None:
    assert verdict(BODY) is None
    assert verdict(BODY.replace("for i in range(n)", "if n")) == "'break' outside loop"
    assert (
        verdict(BODY.replace("limit: int = 4", "global total"))
        == "name 'total' is assigned to before global declaration"
    )


def test_what_has_compiled_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(tree: Any, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(tree, ast.Module):
            seen.append(sum(isinstance(node, ast.Assign | ast.AugAssign) for node in ast.walk(tree)))
        return compile(tree, *arguments, **keywords)

    monkeypatch.setattr(syntax_error, "compile", counted, raising=False)
    document = Document("k.py")
    for text in (BODY, BODY.replace("limit: int = 4", "limit = 5")):
        document.update(text)
    assert seen == [22, 3]  # the statements beside the changed one may go on in it


SIMPLE = st.sampled_from(
    ("a = 1", "a += b", "b: int = 2", "f(a)", "assert a", "return a", "yield a", "await a", "break", "continue", "pass",
     "global a", "nonlocal b", "a = (b := 1)", "a = [b for b in a]", "x = __debug__", "__debug__ = 1", "import a",
     "from a import *", "f(a=1, a=2)", "raise a", "del a", "a = lambda: (yield)", "b = f'{a}'", "(a) = *b, 1"),
)  # fmt: skip
HEADS = st.sampled_from(
    ("if a:", "for a in b:", "while a:", "with a:", "def f(a):", "async def f(b):", "class A:", "async for a in b:")
)


def around(lines: list[str]) -> list[str]:
    """Return a block between other statements: these stay where one in it changes."""
    return ["a = 1", "c = 2", *lines, "a = 3", "d = 4"]


def blocks() -> st.SearchStrategy[list[str]]:
    """Return drawn lines of a block, beginning in the first column."""

    def nested(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        compound = st.tuples(HEADS, inner).map(lambda part: [part[0], *["    " + line for line in around(part[1])]])
        parts = st.lists(st.one_of(SIMPLE.map(lambda line: [line]), compound), min_size=1, max_size=5)
        return parts.map(lambda found: [line for part in found for line in part])

    return st.recursive(st.lists(SIMPLE, min_size=1, max_size=4), nested, max_leaves=8)


@settings(max_examples=scaled(150), deadline=None)
@given(st.lists(blocks(), min_size=1, max_size=3), st.data())
def test_any_text_has_the_findings_of_one_that_is_read_afresh(bodies: list[list[str]], data: st.DataObject) -> None:
    lines: list[str] = []
    for body in map(around, bodies):
        lines += ["def g(a, b):", *["    " + line for line in body]] if data.draw(st.booleans()) else body
    versions = ["\n".join(lines) + "\n"]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        indent = " " * (len(lines[at]) - len(lines[at].lstrip()))
        is_head = lines[at].endswith(":")
        lines[at] = indent + data.draw(HEADS if is_head else SIMPLE)
        versions.append("\n".join(lines) + "\n")
    typed(*versions)
