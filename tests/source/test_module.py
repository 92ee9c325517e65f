"""A text is parsed once under a name, its readers share the tree, and what is kept stays within bounds."""

from __future__ import annotations

import ast
import functools
import linecache

import pytest

from nki_lab.rules import rule
from nki_lab.source import known_facts, module, module_at, parsed, syntax_facts
from nki_lab.source.callables import code_of
from nki_lab.source.trees import extent

TEXT = "import nki\n\n\n@nki.jit\ndef kernel(x):\n    return x\n"


def test_a_text_is_parsed_once_under_one_name() -> None:
    assert parsed(TEXT, "a.py") is parsed(TEXT, "a.py")
    assert parsed(TEXT, "b.py") is not parsed(TEXT, "a.py")
    assert known_facts(TEXT, "a.py") is known_facts(TEXT.replace("\n", "\r\n").encode(), "a.py")
    assert known_facts(TEXT, "a.py").parsed is parsed(TEXT, "a.py")


def test_a_text_as_typed_has_a_tree_of_its_own() -> None:
    assert syntax_facts(TEXT, "a.py", as_typed=True).tree is not parsed(TEXT, "a.py").tree


def test_what_is_kept_stays_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", type(module._kept)())
    monkeypatch.setattr(module, "KEPT", 3)
    monkeypatch.setattr(module, "KEPT_CHARACTERS", 10)
    for name in "abcde":
        parsed("x = 1", name)
    assert [name for _, name in module._kept] == ["d", "e"]
    parsed("y = 1234567890", "f")
    assert [name for _, name in module._kept] == ["f"]
    for name in "ghij":
        parsed("", name)
    assert len(module._kept) == 3


def test_a_file_that_does_not_parse_has_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(linecache.cache, "<broken>", (5, None, ["%time\n"], "<broken>"))
    assert module_at("<broken>") is None
    assert module_at("<nowhere>") is None


def test_a_module_that_is_shown_stands_for_its_file() -> None:
    half_typed = syntax_facts("x = (\ny = 1\n", "shown.py", as_typed=True).parsed
    with half_typed.shown():
        assert module_at("shown.py") is half_typed
        assert linecache.getlines("shown.py") == ["x = (\n", "y = 1\n"]
    assert module_at("shown.py") is None


def test_what_an_expression_is_assigned_to_is_found_by_its_place() -> None:
    text = "a = f(1)\nif x:\n    b.c, (d, e) = g(), (h(), 2)\n\n\ndef k():\n    t: int = f(3); u = f(4)\n    f(5)\n"
    found = parsed(text, "places.py")
    calls = [node for node in ast.walk(found.tree) if isinstance(node, ast.Call)]
    names = {ast.unparse(node): found.assigned_at(extent(node)) for node in calls}
    assert names == {"f(1)": "a", "g()": "b.c", "h()": "d", "f(3)": "t", "f(4)": "u", "f(5)": ""}


def test_statements_above_a_module_leave_its_lines_alone() -> None:
    found = parsed("# remark\ny = x\n", "k.py").under("import a; x = 1")
    assert [(type(node), node.lineno) for node in found.tree.body] == [
        (ast.Import, 0), (ast.Assign, 0), (ast.Assign, 2),
    ]  # fmt: skip
    assert found.text == "# remark\ny = x\n"


def test_the_code_behind_wrappers_is_the_functions_own() -> None:
    def plain() -> None: ...

    @functools.wraps(plain)
    def wrapped() -> None: ...

    class Kernel:
        function = staticmethod(plain)

        def __call__(self) -> None: ...

    for value in (plain, wrapped, functools.partial(plain), Kernel(), functools.partial(Kernel())):
        assert code_of(value) is plain.__code__
    assert code_of(len) is None


def test_a_code_has_one_rule() -> None:
    with pytest.raises(AssertionError, match="NKI104 has two rules"):
        rule.syntax_rule("NKI104")(lambda _facts: ())
