"""Large and deeply broken texts take time that grows as they do: what is counted is work, not seconds."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from nki_lab.query import Document
from nki_lab.rules import syntax_error
from nki_lab.source import recovery

pytestmark = pytest.mark.extended

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
KERNEL = """

@nki.jit
def kernel_{0}(x):
    t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return t
"""
TEXTS: dict[str, Callable[[int], str]] = {
    "a literal": lambda count: f"{HEAD}X = [{'1, ' * count}]\n",
    "a nested literal": lambda count: f"{HEAD}X = [{'[1, -2], ' * count}]\n",
    "kernels": lambda count: HEAD + "".join(map(KERNEL.format, range(count // 8))),
    "open brackets, one below the other": lambda count: HEAD + "x = (\n" * count,
    "open brackets in functions": lambda count: HEAD + "def f(x):\n    y = (x\n    return y]\n" * (count // 3),
    "nested brackets": lambda count: f"{HEAD}x = {'(' * count}{')' * count}\n",
    "open texts": lambda count: HEAD + "x = '''\n" * count,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_twice_the_text_is_parsed_twice(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    parse = ast.parse

    def counted(source: str, *more: object, **options: object) -> ast.Module:
        nonlocal read
        read += len(source)
        return parse(source, *more, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(ast, "parse", counted)
    work = []
    for count in (1500, 3000):
        text, read = TEXTS[kind](count), 0
        Document("k.py").update(text)
        work.append(read / len(text))
    assert work[1] <= 1.2 * work[0] + 1, work


def test_a_text_of_open_brackets_is_read_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    parse = ast.parse

    def counted(source: str, *more: object, **options: object) -> ast.Module:
        nonlocal read
        read += len(source)
        return parse(source, *more, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(ast, "parse", counted)
    found = Document("k.py").update(HEAD + "x = (\n" * 20_000)
    assert len(found) == 20_000
    assert read < 4_000_000


def test_tables_of_numbers_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[ast.stmt] = []
    look = syntax_error._is_safe_to_compile
    monkeypatch.setattr(syntax_error, "_is_safe_to_compile", lambda node: (walked.append(node), look(node))[1])
    text = f"{HEAD}X = [{'1, ' * 1000}]\nY = Z = ((1, X), [(2,)])\n[a] = [*X]\n__debug__ = 1\n"
    found = Document("k.py").update(text)
    assert [ast.unparse(node) for node in walked[3:]] == ["[a] = [*X]", "__debug__ = 1"]
    assert [item.line for item in found if item.code == "NKI101"] == [7]


def test_statements_that_stay_are_not_looked_at_again_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, look = [], syntax_error.branches
    monkeypatch.setattr(syntax_error, "branches", lambda node: (looked.append(node), look(node))[1])
    lines = [f"    a{i} = f(a, b=(1, c.d))\n" for i in range(200)]
    document = Document("k.py")
    document.update("def f(a, b, c):\n" + "".join(lines))
    whole = len(looked)
    looked.clear()
    lines[100] = "    a100 = f(a)\n"
    document.update("def f(a, b, c):\n" + "".join(lines))
    assert 0 < len(looked) < whole / 20


def test_calls_of_thousands_of_keywords_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    statements = 0

    def counted(tree: ast.Module, *more: object, **options: object) -> object:
        nonlocal statements
        statements += len(tree.body)
        return compile(tree, *more, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(syntax_error, "compile", counted, raising=False)
    names = ", ".join(f"a{i}=1" for i in range(1001))
    assert Document("k.py").update(f"f({names})\nclass C({names}): pass\n") == []
    assert statements == 0
    assert Document("k.py").update("f(a=1)\n") == []
    assert statements == 1


@pytest.mark.parametrize("count", [10, 1001])
def test_a_keyword_that_comes_twice_is_told_of_any_call(count: int) -> None:
    names = ", ".join(f"a{i}=1" for i in range(count))
    (found,) = Document("k.py").update(f"x = 1\nf({names}, a7=2)\n")
    assert (found.code, found.line, found.column) == ("NKI101", 2, len(f"f({names}, ") + 1)
    assert "keyword argument repeated: a7" in found.message


def test_broken_lines_are_searched_for_names_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = recovery.names_in

    def counted(line: str) -> tuple[list[str], list[str]]:
        searched.append(line)
        return search(line)

    monkeypatch.setattr(recovery, "names_in", counted)
    Document("k.py").update(HEAD + "".join(f"def f{i}(:\n    x = (((\n" for i in range(100)))
    assert len(searched) <= 2 * 200
