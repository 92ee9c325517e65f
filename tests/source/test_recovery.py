"""Reading around a mistake, and reading again only what has changed."""

from __future__ import annotations

import ast
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.rules import check_syntax
from nki_lab.source import SyntaxFacts, recovery, syntax_facts
from nki_lab.source.recovery import names_in

KERNELS = sorted((Path(__file__).parents[1] / "kernels").glob("*.py"))
MODULE = "\n".join(file.read_text(encoding="utf-8") for file in KERNELS[:5])
LINES = MODULE.split("\n")


def facts(source: str | list[str], before: SyntaxFacts | None = None) -> SyntaxFacts:
    return syntax_facts(source, "k.py", as_typed=True, before=before)


def faults(found: SyntaxFacts) -> list[tuple[int, str]]:
    return [(item.line, item.message) for item in found.parsed.faults]


BODY = """import nki


@nki.jit
def first(x):
    a = x
{}
    b = lambda: 0
    return b


@nki.jit
def second(x):
    return lambda: 1
"""


@pytest.mark.parametrize(
    ("line", "message", "unread"),
    [
        ("    y = nl.load(a[", "was never closed", [7]),
        ("    y = nl.", "invalid syntax", [7]),
        ("    def helper(a", "was never closed", [7]),
        ("    y = 'abc", "unterminated string", [7]),
        ('    y = """abc', "unterminated triple-quoted", [7]),
        ("    if y", "expected ':'", [7]),
        ("    if y:", "expected an indented block", [7]),
        ("    for i in range(3]:", "does not match", [7]),
        ("       y = 3", "unexpected indent", [7]),
        ("  y = 3", "unindent does not match", [7]),
        ("    y)", "unmatched", [7]),
        ("    else if y:", "invalid syntax", [7]),
        ("    y = = 3", "invalid syntax", [7]),
        ("    f(a,\n      b c,\n      d)", "forgot a comma", [7, 8, 9]),
        ("    return", None, []),
    ],
)
def test_a_mistake_costs_its_lines(line: str, message: str | None, unread: list[int]) -> None:
    found = facts(BODY.format(line))
    assert sorted(found.parsed.unread) == unread
    assert [message in said for _, said in faults(found)] == ([] if message is None else [True])
    assert [item.node.name for item in found.functions if item.is_entry] == ["first", "second"]
    others = [(item.code, item.line) for item in check_syntax(found) if item.code != "NKI101"]
    assert ("NKI104", len(found.lines) - 1) in others


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ("    y = f(\n        a[\n            b[3,\n            c,\n        ],\n    )", 12, "does not match"),
        ("    y = (\n    u = 3\n    v = 4\n    return ]", 10, "does not match"),
        ("    y = f(\n        g(a,\n        h(b),\n    )\n    z = 3", 7, "was never closed"),
        ("    y = f\n        g(a),\n        h(b),\n    )\n    z = 3", 8, "unexpected indent"),
        ("y = 3\n    for i in range(3):\n        z = i\n    u = 4", 8, "unexpected indent"),
        ("    def inner\n        a: int,\n        *,\n        b=3,\n    ):\n        return a", 11, "unmatched"),
        ("    def inner\n        a: int,\n        *,\n        b=3,\n    return a", 7, "expected '('"),
        ("    for i in range(3\n        b = = i\n    c = 4", 7, "was never closed"),
        ('    """\n    Open (\n    """[\n    y = 3', 9, "was never closed"),
    ],
)
def test_consequences_of_a_mistake_are_no_findings(lines: str, line: int, message: str) -> None:
    ((found, said),) = faults(facts(BODY.format(lines)))
    assert (found, message in said) == (line, True), said


@pytest.mark.parametrize("rows", [2, 12, 50])
def test_a_line_in_a_bracket_that_is_not_indented_is_the_mistake_if_it_is_one(rows: int) -> None:
    table = "".join(f"    ({number}, 2),\n" for number in range(rows))
    for line, is_wrong in (("(3, 4),", False), ("(3 4),", True)):
        found = facts(f"import nki\nTABLE = [\n{table}{line}\n{table}]\n\n\ndef k(x):\n    return x\n" + "y = )\n")
        assert [place for place, _ in faults(found)] == [rows + 3] * is_wrong + [2 * rows + 9]
        assert any(isinstance(node, ast.FunctionDef) for node in found.tree.body)


@pytest.mark.parametrize("other", ["    z = = 3", "    z = 'abc", "    while z:\n        z = = 3"])
def test_another_mistake_in_the_same_function_is_a_finding(other: str) -> None:
    found = faults(facts(BODY.format(f"    y = (\n    u = 3\n    v = 4\n{other}")))
    assert [line for line, _ in found] == [7, 10 + other.count("\n")]


def test_one_mistake_is_most_often_one_finding_and_near() -> None:
    draw = random.Random(3)
    texts = [file.read_text(encoding="utf-8") for file in KERNELS]
    counts: Counter[int] = Counter()
    while counts.total() < 400:
        lines = draw.choice(texts).split("\n")
        at = draw.randrange(len(lines))
        column = draw.randrange(len(lines[at]) + 1)
        typed = draw.choice(("(", ")", "[", "}", " = = ", ":", " b c", "'", ""))
        lines[at] = lines[at][:column] + typed + lines[at][column + draw.choice((0, 0, 1, 80)) :]
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as failure:
            found = faults(facts("\n".join(lines)))
            counts[len(found)] += 1
            nearest = min(abs(line - at - 1) for line, _ in found)
            assert nearest <= max(10, abs((failure.lineno or 1) - at - 1)), (at + 1, found)
    assert counts[1] >= 0.9 * counts.total(), counts
    assert max(counts) <= 5, counts


def test_two_mistakes_are_two_findings() -> None:
    found = facts(BODY.format("    y = (") + "\n\ndef third(x):\n    return ]\n")
    assert [line for line, _ in faults(found)] == [7, 18]


def test_what_stands_below_a_broken_header_is_not_judged() -> None:
    found = facts("import nki\n@nki.jit\ndef k(x):\n    for i in rnge(:\n        y = x\n    return y\n")
    (function,) = (node for node in found.tree.body if isinstance(node, ast.FunctionDef))
    (loop,) = (node for node in function.body if isinstance(node, ast.If))
    assert isinstance(loop.test, ast.Name)
    assert loop.test.id == "__builtins__"
    assert [type(node).__name__ for node in loop.body][-1] == "Assign"


def test_a_decorator_is_not_left_alone() -> None:
    found = facts("import nki\n@nki.jit\ndef k(x:\n    return x\n")
    assert [node.name for node in found.tree.body if isinstance(node, ast.FunctionDef)] == ["__unread__"]


def test_parents_that_other_tools_set_at_shared_nodes_are_not_followed() -> None:
    load = ast.parse("x").body[0].value.ctx  # type: ignore[attr-defined] # one object in all trees
    load.parent = ast.parse("y = x").body[0]
    load.parent.parent = load
    try:
        assert faults(facts(MODULE + '\n\ndef f():\n    """\n' + MODULE))
    finally:
        del load.parent


def test_an_open_docstring_takes_what_it_takes_and_no_more_time() -> None:
    found = facts(MODULE + '\n\ndef f():\n    """\n' + MODULE)
    assert faults(found)


@pytest.mark.parametrize(
    ("line", "bound", "read"),
    [
        ("    y = nl.load(x[i", {"y"}, {"y", "nl", "x", "i"}),
        ("    nisa.tensor_copy(dst=out, src=tile", set(), {"nisa", "out", "tile"}),
        ("    a, b = f(c", {"a", "b"}, {"a", "f", "c"}),
        ("    total += x[", {"total"}, {"total", "x"}),
        ("for i, j in pairs(", {"i", "j"}, {"i", "j", "pairs"}),
        ("with f(x) as y, (", {"y"}, {"f", "x", "y"}),
        ("y: int = (", {"y"}, {"y", "int"}),
        ("if x == y and (", set(), {"x", "y"}),
        ("f('x y', \"z # ', # w", set(), {"f"}),
        ("größe = ä(", {"größe"}, {"größe", "ä"}),
    ],
)
def test_names_of_a_broken_line(line: str, bound: set[str], read: set[str]) -> None:
    stores, loads = names_in(line)
    assert (set(stores), set(loads)) == (bound, read)


def bound_and_read(found: SyntaxFacts) -> tuple[set[str], set[str]]:
    return found.module.bound, {node.id for node in found.module.loads}


def test_one_statement_mentions_the_names_of_broken_lines_that_follow_each_other() -> None:
    lines = ["first = = (a", "second = = (b", "first = = (c", "", "# a comment", "third = = (a"]
    found = facts("\n".join(["before = 1", *lines, "after = 2", "fourth = = (d"]))
    assert [type(node).__name__ for node in found.tree.body] == ["Assign", "If", "Assign", "If"]
    assert [(node.lineno, node.end_lineno) for node in found.tree.body] == [(1, 1), (2, 7), (8, 8), (9, 9)]
    bound, read = bound_and_read(found)
    assert bound == {"before", "first", "second", "third", "after", "fourth"}
    assert read >= {"a", "b", "c", "d"}
    assert [line for line, _ in faults(found)] == [2, 3, 4, 7, 9]
    names = [node for node in ast.walk(found.tree) if isinstance(node, ast.Name) and node.id in "abcd"]
    assert sorted((node.id, node.lineno) for node in names) == [("a", 2), ("b", 3), ("c", 4), ("d", 9)]


def test_what_stands_below_a_broken_header_is_no_part_of_broken_lines_above() -> None:
    found = facts("x = = (\nif y = = 1:\n    z = 1\nw = = (\n")
    ends = [node.body[-1] for node in found.tree.body if isinstance(node, ast.If)]
    assert [ast.unparse(node) for node in ends] == ["x = None", "z = 1", "w = None"]
    assert bound_and_read(found)[0] >= {"x", "z", "w"}


def test_after_many_broken_statements_each_goes_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "STATEMENTS", 2)
    broken = "".join(f"@nki.jit\ndef k{i}(x):\n    y = nl.load(x\n    return helper{i}(y)\n\n" for i in range(4))
    found = facts(f"import nki\n{broken}value = = (\ndef good(x):\n    return k3(x)\n")
    names = [node.name for node in found.tree.body if isinstance(node, ast.FunctionDef)]
    assert names == ["k0", "k1", "good"]
    bound, _ = bound_and_read(found)
    assert bound >= {"k2", "k3", "value"}
    assert not bound & {"x", "y"}, "the names of a function are its own"
    assert [line for line, _ in faults(found)] == [4, 9, 14, 19, 22]


# -- again ---------------------------------------------------------------------------------------------------------------


def dumped(found: SyntaxFacts) -> str:
    return ast.dump(found.tree, include_attributes=True)


PIECES = [
    "(",
    ")",
    '"""',
    "'",
    "\n",
    "\n\n",
    "    ",
    ":",
    "nl.",
    " = ",
    "@nki.jit\n",
    "# ",
    "é",
    "\\\n",
    "else:",
    "del x\n",
    "",
    ";",
]


@st.composite
def versions(draw: st.DrawFn) -> list[str]:
    """A module over a few edits, each at some place."""
    text, found = MODULE, [MODULE]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.sampled_from([0, 0, 1, 6, 50, 400]))
        text = text[:at] + draw(st.sampled_from(PIECES)) + text[at + cut :]
        found.append(text)
    return found


@settings(deadline=None)
@given(versions())
def test_what_is_read_again_is_what_is_read_afresh(texts: list[str]) -> None:
    before: SyntaxFacts | None = None
    for text in texts:
        before = facts(text, before)
        fresh = facts(text)
        if not fresh.parsed.faults and not before.parsed.faults:
            assert dumped(before) == dumped(fresh)
            assert check_syntax(before) == check_syntax(fresh)
            assert [item.node.name for item in before.functions] == [item.node.name for item in fresh.functions]
        try:
            syntax_facts(text, "k.py")
        except NkiError:
            assert before.parsed.faults
        else:
            assert not before.parsed.faults


@pytest.mark.extended
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3), st.sampled_from(PIECES)), max_size=6))
def test_two_changes_far_from_each_other_are_read_as_afresh(edits: list[tuple[int, int, str]]) -> None:
    long = [*(["# far"] * 120), *LINES, *(["# far"] * 120), *LINES, *(["# far"] * 120)]
    places = [len(long) * part // 8 for part in range(8)]
    before: SyntaxFacts | None = None
    for part, cut, piece in [(0, 0, ""), *edits]:
        lines = list(long)  # each change takes the one before back
        lines[places[part] : places[part] + cut] = [piece]
        text = "\n".join(lines)
        before, fresh = facts(text, before), facts(text)
        if not fresh.parsed.faults and not before.parsed.faults:
            assert dumped(before) == dumped(fresh)
            assert check_syntax(before) == check_syntax(fresh)
        assert bool(before.parsed.faults) == bool(fresh.parsed.faults)


def test_two_changes_leave_the_functions_between_them() -> None:
    functions = [f"def f{number}(x):\n" + "    y = x\n" * 30 for number in range(20)]
    text = "\n".join(functions)
    first = facts(text.replace("def f3(x):", "def f3(x, z):"))
    kept = {id(node) for node in first.tree.body}
    second = facts(text.replace("def f16(x):\n", "def f16(x):\n    more = 1\n"), first)
    assert len(kept & {id(node) for node in second.tree.body}) >= 14
    assert dumped(second) == dumped(facts(second.parsed.text))


def test_typing_in_one_function_leaves_the_trees_of_others() -> None:
    first = facts(MODULE)
    kept = {id(node) for node in first.tree.body}
    at = next(i for i in range(len(LINES) // 2, len(LINES)) if LINES[i].startswith("    "))
    for lines in (["    # typed"], ["", ""], []):
        second = facts("\n".join([*LINES[:at], *lines, *LINES[at + 1 :]]), first)
        assert len(kept & {id(node) for node in second.tree.body}) > len(first.tree.body) // 2
        first = second


def test_a_mended_line_is_read_with_what_stands_around_it() -> None:
    broken = "import os\n\n\nx = f(\n    1,\n    2,\n\n\ndef g():\n    return x\n"
    mended = broken.replace("    2,\n", "    2)\n")
    assert faults(facts(broken))
    found = facts(mended, facts(broken))
    assert not found.parsed.faults
    assert dumped(found) == dumped(facts(mended))


# -- notebooks -----------------------------------------------------------------------------------------------------------


def test_a_mistake_stays_in_its_cell() -> None:
    found = facts(["x = (", "y = 1", 'z = """', "\0", "w = 2"])
    assert [line for line, _ in faults(found)] == [1, 3, 4]
    names = [node.targets[0].id for node in found.tree.body if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]
    assert names == ["y", "w"]
    assert found.parsed.text == 'x = (\ny = 1\nz = """\n?\nw = 2'


def test_cells_move_with_their_places() -> None:
    draw = random.Random(1)
    cells = [f"import nki\n\n\n@nki.jit\ndef k{i}(x):\n    return lambda: {i}\n" for i in range(8)]
    before: SyntaxFacts | None = None
    for _ in range(12):
        draw.shuffle(cells)
        cells[draw.randrange(8)] = draw.choice(["x = (", "x = 1\n\n", "def f():\n    return lambda: 0"])
        before = facts(cells, before)
        fresh = facts(cells)
        assert dumped(before) == dumped(fresh)
        assert check_syntax(before) == check_syntax(fresh)


def test_a_text_that_goes_on_behind_a_line_is_no_mistake_beside_another_one() -> None:
    text = 'import nki}\n\nKIND = ("fl\\\noat32",)\n\n\n@nki.jit\ndef kernel(x):\n    return x\n'
    assert [line for line, _ in faults(facts(text))] == [1]
    before = facts(text.replace("}", ""))
    assert faults(facts(text, before)) == faults(facts(text))
    assert [line for line, _ in faults(facts('x = "a\\\n\ndef f():\n    return 1\ny = )\n'))] == [1, 5]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('s = """open\ny = 1\nz = 2\nw = 3\nv = 4\nend"""', [8, 9]),
        ("s = [\n(1),\n(2),\n(3),\n(4),\n(5),\n(6)]", [9, 10]),
    ],
)
def test_what_is_nested_too_deeply_behind_a_long_statement_does_not_cost_the_lines_before(
    text: str, lines: list[int]
) -> None:
    found = facts(f"first = 0\n{text}\nx = a" + 20_000 * ".b" + "\nbad = = 1\n")
    assert [line for line, _ in faults(found)][: len(lines)] == lines
    assert "first" in found.module.bound


def test_what_is_nested_too_deeply_is_said_at_its_line() -> None:
    text = 30 * "a = 1\n" + "x = a" + 20_000 * ".b" + "\nbad = = 1\n"
    assert [line for line, _ in faults(facts(text))] == [31, 32]


def long_text(lines: int, quotes: str, inside: str = "") -> str:
    """A text in quotes whose lines look like statements."""
    return f"{quotes}A text.\n\n" + "\n".join(f"word_{number} says something, (" for number in range(lines)) + inside


@pytest.mark.parametrize("quotes", ["'''", '"""'])
@pytest.mark.parametrize("prefix", ["", "HELP = ", "HELP = r", "f(1, 2, ", "x = ''; y = ", "def g():\n    "])
@pytest.mark.parametrize("lines", [1, 30, 40, 100, 700])
def test_a_long_text_in_quotes_is_no_mistake_beside_another_one(lines: int, prefix: str, quotes: str) -> None:
    inside = f"\n\\{quotes}\nan \"odd\" 'one'\n"
    text = prefix + long_text(lines, quotes, inside) + quotes + (")" if "(" in prefix and "def" not in prefix else "")
    ast.parse(text)
    found = facts(f"{text}\nimport nki\n\n\ndef h(x):\n    return g(x\n\n\ndef k(x):\n    return x\n")
    ((line, message),) = faults(found)
    assert (line, "was never closed" in message) == (text.count("\n") + 6, True)
    assert "k" in {node.name for node in found.tree.body if isinstance(node, ast.FunctionDef)}
    assert not any("word" in node.id for node in ast.walk(found.tree) if isinstance(node, ast.Name))


@pytest.mark.parametrize("lines", [1, 30, 100])
def test_a_long_text_without_an_end_is_said_where_it_begins(lines: int) -> None:
    found = faults(facts(f"import nki\nx = (\n\nHELP = {long_text(lines, chr(39) * 3)}\n\ndef k(x):\n    return x\n"))
    assert [line for line, _ in found] == [2, 4]
    assert "unterminated triple-quoted" in found[1][1]


def test_a_table_at_the_end_of_a_file_is_no_mistake_beside_another_one() -> None:
    """Its lines look like statements, and are fewer than twice as many of those before them."""
    table = "TABLE = [\n" + "".join(f"({number}, 2),\n" for number in range(9)) + "]\n"
    found = facts(f"x = )\n{table}")
    assert [line for line, _ in faults(found)] == [1]
