"""Whatever an editor holds in its buffer, the rules answer with diagnostics: half-typed, pasted, binary, absurd."""

from __future__ import annotations

import ast
import cProfile
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.diagnostic import Diagnostic, NkiError, render
from nki_lab.rules import SYNTAX_RULES, check_syntax
from nki_lab.source import SyntaxFacts, syntax_facts
from nki_lab.source.parsing import unparsable

HEAD = "import nki\n@nki.jit\ndef kernel(x):\n"
FENCES = [
    part.partition("```")[0]
    for document in sorted(Path(__file__).parent.glob("*.md"))
    for part in document.read_text(encoding="utf-8").split("```python\n")[1:]
]
SNIPPETS = ["(", ")", "[", "{", "}", ":", "*", "lambda", "async ", "\n", "\t", "\r", "\x0c", "'", '"""', "\\", "#", "@"]
SNIPPETS += [
    "é",
    "日本",
    "😀",
    "\0",
    "\ufeff",
    "\ud800",
    "\u2028",
    "\x85",
    "f'{",
    ":=",
    "is",
    "del ",
    "yield ",
    "match ",
]


def answer(source: str | bytes, kernel_names: list[str] | None = None) -> tuple[list[Diagnostic], list[str]]:
    """The diagnostics of a source, and its lines as Python counts them."""
    try:
        facts = syntax_facts(source, "kernel.py", kernel_names)
    except NkiError as error:
        assert isinstance(error, SyntaxError)
        assert [item.code for item in error.diagnostics] == ["NKI101"]
        return list(error.diagnostics), []
    return check_syntax(facts), list(facts.lines)


def assert_sound(found: list[Diagnostic], lines: list[str]) -> None:
    """Every finding has a place in the text, and is shown without complaint."""
    for item in found:
        assert item.span is not None
        start, end = (item.line, item.column), (item.end_line, item.end_column)
        assert (1, 1) <= start <= end
        if lines:
            assert item.end_line <= len(lines)
            assert item.column <= len(lines[item.line - 1]) + 1
            assert item.end_column <= len(lines[item.end_line - 1]) + 1
        assert render(item, source_line=lambda _file, line: lines[line - 1] if line <= len(lines) else "")


@st.composite
def edited_sources(draw: st.DrawFn) -> str:
    """A valid file with a few edits: pieces taken out, put in, doubled."""
    text = draw(st.sampled_from(FENCES))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 20)))
        piece = draw(st.sampled_from([*SNIPPETS, "", text[start:stop] * 2]) | st.text(max_size=4))
        text = text[:start] + piece + text[stop:]
    return text


@given(edited_sources())
def test_an_edited_file_is_answered(source: str) -> None:
    assert_sound(*answer(source, ["kernel", "a", "inner"]))


@given(st.text())
def test_any_text_is_answered(source: str) -> None:
    assert_sound(*answer(source))


@given(st.binary() | edited_sources().map(lambda text: text.encode("utf-16", "surrogatepass")))
def test_any_bytes_are_answered(source: bytes) -> None:
    assert_sound(*answer(source))


@given(edited_sources(), st.sampled_from(["\r\n", "\r"]))
def test_line_ends_do_not_move_a_finding(source: str, line_end: str) -> None:
    if "\r" in source:
        return
    unix, other = answer(source)[0], answer(source.replace("\n", line_end))[0]
    assert [(item.code, item.span) for item in unix] == [(item.code, item.span) for item in other]


@given(
    st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="'\\")), st.sampled_from(["", "f", "rb"])
)
def test_text_that_is_not_ascii_does_not_move_a_span(text: str, prefix: str) -> None:
    if not text.isalnum() or (prefix == "rb" and not text.isascii()):
        prefix = ""
    found, lines = answer(f"{HEAD}    y = {prefix}'{text}', lambda: 0, '{text}'; é = [z for z in x]\n")
    assert [lines[item.line - 1][item.column - 1 : item.end_column - 1] for item in found] == [
        "lambda: 0",
        "[z for z in x]",
    ]


def test_a_form_feed_ends_no_line() -> None:
    found, _ = answer(f"\x0c\n{HEAD}\x0c    é = 1\x0c; y = lambda: 0\n")
    assert [(item.line, item.column, item.end_column) for item in found] == [(5, 18, 27)]


def test_a_byte_order_mark_moves_nothing() -> None:
    source = "@nki.jit\ndef k(x): return lambda: 0"
    expected = answer(source)[0]
    assert expected
    assert answer("\ufeff" + source)[0] == answer(b"\xef\xbb\xbf" + source.encode())[0] == expected


def test_the_declared_encoding_is_read() -> None:
    source = f"# -*- coding: latin-1 -*-\n{HEAD}    é = 'ü'; return lambda: 0\n"
    assert answer(source.encode("latin-1"))[0] == answer(source)[0] != []


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        (b"x = 1\ny = '\xff'\n", 2, 6, "not text"),
        (b"# coding: klingon\n", 1, 1, "unknown encoding"),
        (b"# coding: rot13\n", 1, 1, "not a text encoding"),
        (b"\x7fELF\x02\x01\x01\x00", 1, 8, "null character"),
        ("x = 1\r\ny = '\0'", 2, 6, "null character"),
        ("x = '\ud800'", 1, 6, "surrogate"),
        ("(" * 1000, 1, 201, "nested parentheses"),
        ("x = " + "9" * 5000, 1, 1, "4300"),
        ("é = = 3", 1, 5, "invalid syntax"),
        ("if x:\n", 1, 6, "indented block"),
    ],
)
def test_what_is_no_python_is_placed(source: str | bytes, line: int, column: int, message: str) -> None:
    (found,), _ = answer(source)
    assert (found.code, found.line, found.column) == ("NKI101", line, column)
    assert message in found.message


# Around 1,000 is the depth at which Python's own parser gives up.
DEPTHS = [
    100,
    900,
    980,
    1000,
    50_000,
    *(pytest.param(depth, marks=pytest.mark.slow) for depth in (400, 700, 960, 2000)),
]


@pytest.mark.parametrize("depth", DEPTHS)
def test_deep_expressions_are_answered(depth: int) -> None:
    shapes = ["a" + ".b" * depth, "-" * depth + "1", "+".join("1" * depth), "f" + "(1)" * depth, "not " * depth + "1"]
    shapes += ["[0]" * depth, "1 if 1 else " * depth + "1", "lambda: " * depth + "1", "{(1,): " * min(depth, 60)]
    for shape in shapes:
        for frame in ("    return {}", "    with {}: pass", "    return {{{}: 1}}", "    return 1 is {}"):
            found, lines = answer(HEAD + frame.format(shape))
            assert_sound(found, lines)


@pytest.mark.parametrize(
    "failure", [RecursionError(), MemoryError(), SystemError("AST constructor"), ValueError("odd")]
)
def test_a_failure_of_the_parser_is_a_diagnostic(failure: Exception) -> None:
    found = unparsable(failure, "kernel.py", ("x",))
    assert (found.code, found.line, found.column) == ("NKI101", 1, 1)
    assert "nested too deeply" in found.message or "odd" in found.message


def test_the_reader_s_recursion_limit_is_left_alone() -> None:
    before = sys.getrecursionlimit()
    answer("x = " + "-" * 50_000 + "1")
    assert sys.getrecursionlimit() == before


def test_a_file_is_parsed_and_not_run(tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    found, _ = answer(f"import pathlib\npathlib.Path({str(witness)!r}).touch()\n{HEAD}    return x\n")
    assert not found
    assert not witness.exists()


def test_findings_come_in_the_order_of_the_source() -> None:
    found, _ = answer(f"{HEAD}    del x\n    y = {{1}}\n    z = lambda: 0; del z\n    return [i for i in y]\n")
    assert [(item.line, item.code) for item in found] == [
        (4, "NKI107"),
        (5, "NKI108"),
        (6, "NKI104"),
        (6, "NKI107"),
        (7, "NKI103"),
    ]


def test_a_helper_says_which_kernel_reaches_it() -> None:
    (found,), _ = answer("def helper(x):\n    return lambda: 0\n@nki.jit\ndef kernel(x):\n    return helper(x)\n")
    (related,) = found.related
    assert related.message == "helper is kernel code: the kernel kernel reaches it"
    assert related.span is not None
    assert (related.span.line, related.span.column, related.span.end_column) == (4, 5, 11)


def test_names_given_by_the_caller_are_kernels() -> None:
    source = "def first(x):\n    return lambda: 0\ndef second(x, *, y):\n    return first(x)\n"
    assert not answer(source)[0]
    assert [item.code for item in answer(source, ["first"])[0]] == ["NKI104"]
    assert [item.code for item in answer(source, ["second"])[0]] == ["NKI104", "NKI109"]


def facts_of(source: str) -> SyntaxFacts:
    return syntax_facts(source, "kernel.py")


def test_facts_name_the_kernels_and_what_they_reach() -> None:
    facts = facts_of("import neuronxcc.nki as nki\ndef h(x): ...\n@nki.jit\ndef k(x): h(x)\ndef host(x): k(x)\n")
    assert [node.name for node in facts.kernels] == ["k"]
    assert [(item.node.name, item.dialect, item.is_entry, item.kernel.name) for item in facts.functions] == [
        ("h", "beta1", False, "k"),
        ("k", "beta1", True, "k"),
    ]
    assert facts.limited(["current"]).functions == ()
    assert facts.limited(["current", "beta1"]) is facts


def test_every_node_of_kernel_code_is_found_once() -> None:
    source = (
        "@nki.jit\ndef k(x):\n    def f(y):\n        return y\n    return f(x)\n@nki.jit\ndef g(x):\n    return k(x)\n"
    )
    names = [node.id for node in facts_of(source).find(ast.Name)]
    assert sorted(names) == ["f", "k", "x", "x", "y"]


def test_the_work_of_checking_grows_with_the_file_and_not_faster() -> None:
    """No finding costs a walk of its own: twenty times the lines take no more than 25 times the function calls."""

    def calls(kernels: int) -> int:
        body = "".join(f"@nki.jit\ndef k{i}(x):\n" + "    y = x[0:128, 1:2] + 1\n" * 8 for i in range(kernels))
        profile = cProfile.Profile()
        assert not profile.runcall(lambda: check_syntax(facts_of("import nki\n" + body)))
        return sum(item.callcount for item in profile.getstats())

    calls(10)
    assert calls(400) < 25 * calls(20)


def test_a_rule_on_kernel_code_judges_one_dialect() -> None:
    both = {rule.code for rule in SYNTAX_RULES if set(rule.dialects) == {"current", "beta1"}}
    assert both == {"NKI005", "NKI101"}  # the host's side, and Python's own syntax
    assert {rule.code for rule in SYNTAX_RULES if rule.dialects == ("beta1",)} == {
        "NKI334", "NKI335", "NKI336", "NKI337"
    }  # fmt: skip
