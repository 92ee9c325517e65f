"""Places in half-typed text: statements, brackets, strings, whatever is open above."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nki_lab.query import completions, signature_help
from nki_lab.query.completion import Completions
from nki_lab.query.completion.cursor import cursor_at
from nki_lab.rules.api_calls import nki_calls
from nki_lab.source import known_facts
from tests.every import for_each
from tests.query.completion.marked import HEAD, TAIL, complete, labels, place

ROOT = Path(__file__).resolve().parents[3]
KERNELS = sorted((ROOT / "examples" / "kernels").glob("k*.py"))
SMALLEST = min(KERNELS, key=lambda file: file.stat().st_size)


def call_at(text: str) -> str | None:
    """The function of the call that the cursor stands in; None outside of calls."""
    source, line, column = place(text)
    offset = sum(len(item) + 1 for item in source.split("\n")[: line - 1]) + column - 1
    found = cursor_at(source, offset)
    return found.calls[0].function if found is not None and found.calls else None


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("f(a, |", "f"),
        ("f(a, g(b), |", "f"),
        ("f(a, g(b, |", "g"),
        ("f(a)[|", None),
        ("a.b[0].f(|", "a.b[0].f"),
        ("f(x)(|", "f(x)"),
        ("f (|", "f"),
        ("f(a\n  , |", "f"),
        ("f(\n|", "f"),
        ("f(a,\n|", "f"),
        ("f(a,\nb = 3\nc|", None),
        ("f(a,\ndef g(x):\n    |", None),
        ("    f(a,\n    g(b)\n    |", None),
        ("    f(a,\n        g(b),\n        |", "f"),
        ("f(')', |", "f"),
        ("f('''\n)\n''', |", "f"),
        ("f(r'\\', |", None),
        ("f(a, # )\n  |", "f"),
        ("f(a) or (|", None),
        ("return (|", None),
        ("if (|", None),
        ("def f(a, |", None),
        ("class A(|", None),
        ("f(x for x in (|", "f"),
        ("x = [f(|", "f"),
        ("f(a, \\\n  |", "f"),
        ("f({'a': |", "f"),
        ("f(a]|", "f"),
        ("@f(|\ndef g(): pass", "f"),
    ],
)
def test_the_call_around_the_cursor(text: str, function: str | None) -> None:
    assert call_at(text) == function


@pytest.mark.parametrize(
    "above",
    [
        "    nisa.nc_matmul(dst=,\n",
        "    z = (\n",
        "    z = tile[0:\n",
        "    for i in\n",
        "    for i in range(4):\n",
        "    if flag\n",
        "    text = 'open\n",
        "    def inner(\n",
        "    return\n    }\n",
        "    @\n",
        "    nisa.\n",
        "    x.y(((\n    z = 3\n",
    ],
)
@pytest.mark.parametrize("below", ["", "    nisa.tensor_copy(dst=,\n", "    z = ((\n", "'''\n", "    for\n"])
def test_broken_lines_around_hide_nothing(above: str, below: str) -> None:
    for statement, label in (("nisa.nc_|", "nc_matmul"), ("nisa.nc_matmul(|", "dst="), ("tile.|", "reshape")):
        found = complete(f"{HEAD}{above}    {statement}\n{below}{TAIL}")
        assert found is not None, statement
        assert label in labels(list(found.items)), statement


@pytest.mark.parametrize("above", ["   odd = 3\n", "\tz = 3\n", "      z = 3\n"])
def test_a_line_with_a_wrong_indentation_hides_nothing(above: str) -> None:
    found = complete(f"{HEAD}{above}    tile.|\n{TAIL}")
    assert found is not None
    assert "reshape" in labels(list(found.items))


@pytest.mark.parametrize(
    "block", ["for i in range(4):", "if flag:", "with nl.no_reorder():", "else:", "try:", "while 1:"]
)
def test_an_empty_block_is_no_obstacle(block: str) -> None:
    above = "    if flag:\n        pass\n" if block == "else:" else ""
    found = complete(f"{HEAD}{above}    {block}\n        nisa.|\n")
    assert found is not None
    assert complete(f"{HEAD}{above}    {block}\n        t|{TAIL}") is not None
    assert complete(f"{HEAD}{above}    {block}\n        |{TAIL}") is not None


def checked(text: str, line: int, column: int) -> Completions | None:
    """The completions at a place; what they replace is the word there."""
    signature_help(text, line, column, "prefixes.py", target="trn2")
    found = completions(text, line, column, "prefixes.py", target="trn2")
    if found is not None:
        content = text.split("\n")[line - 1]
        assert found.line == line
        assert found.cursor == column
        assert content[found.start - 1 : column - 1] == found.word
        assert all(item.isalnum() or item == "_" for item in content[found.start - 1 : found.end - 1])
        assert not content[found.end - 1 : found.end].isalnum()
        assert len({item.label for item in found.items}) == len(found.items)
        assert all(item.label.isprintable() and "\n" not in item.summary for item in found.items)
        assert all(item.filter_text(found.word) for item in found.items)
    return found


def test_every_prefix_of_a_kernel_is_answered() -> None:
    text = SMALLEST.read_text(encoding="utf-8")
    start = text.index("@nki.jit")
    offered = 0
    for offset in range(start, min(len(text), start + 900)):
        before = text[:offset]
        found = checked(before, before.count("\n") + 1, len(before) - before.rfind("\n"))
        offered += found is not None
    assert offered > 100


def test_every_place_of_a_kernel_is_answered() -> None:
    draw = random.Random(7)
    for file in KERNELS:
        text = file.read_text(encoding="utf-8")
        for offset in sorted(draw.sample(range(len(text)), 40)):
            before = text[:offset]
            checked(text, before.count("\n") + 1, len(before) - before.rfind("\n"))


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_is_survived(seed: int) -> None:
    draw = random.Random(seed)
    text = draw.choice(KERNELS).read_text(encoding="utf-8")
    pieces = [
        "(",
        ")",
        "[",
        "]",
        "'",
        '"',
        '"""',
        "\n",
        "    ",
        "\t",
        "\\\n",
        "#",
        ":",
        ".",
        "nl.",
        "=",
        "é😀",
        "@",
        "\r",
        "\f",
        "def ",
    ]
    for _ in range(40):
        at, cut = draw.randrange(len(text)), draw.choice([0, 0, 1, 9])
        text = text[:at] + draw.choice(pieces) + text[at + cut :]
        plain = text.replace("\r", "\n")
        before = plain[: draw.randrange(len(plain))]
        checked(plain, before.count("\n") + 1, len(before) - before.rfind("\n"))


@for_each([SMALLEST, *KERNELS[5:7]])
def test_whatever_an_author_wrote_was_offered(file: Path) -> None:
    """Cut off in each name of a function and before each first keyword, the text is offered what stands there."""
    text = file.read_text(encoding="utf-8")
    lines, facts = text.split("\n"), known_facts(text, str(file))
    seen = 0
    for item in nki_calls(facts):
        function, name = item.node.func, item.name.rpartition(".")[2]
        number, end = function.end_lineno or 0, facts.character(function.end_lineno or 0, function.end_col_offset or 0)
        if lines[number - 1][end - len(name) : end] == name:
            cut = "\n".join([*lines[: number - 1], lines[number - 1][: end - len(name) + 1]])
            found = completions(cut, number, end - len(name) + 2, str(file))
            assert found is not None
            assert name in {other.label for other in found.items}
            seen += 1
        for keyword in item.node.keywords[:1]:
            start = facts.character(keyword.lineno, keyword.col_offset)
            cut = "\n".join([*lines[: keyword.lineno - 1], lines[keyword.lineno - 1][:start]])
            found = completions(cut, keyword.lineno, start + 1, str(file))
            assert found is not None
            assert f"{keyword.arg}=" in {other.label for other in found.items}
    assert seen


@pytest.mark.parametrize(
    "text", ["", "nki", "\0nki.", "nki\ud800 nl.", "import nki\n" + "(" * 3000, "import nki\n" + "f(" * 4000]
)
def test_strange_texts_are_answered(text: str) -> None:
    lines = text.split("\n")
    for line, column in ((1, 1), (len(lines), len(lines[-1]) + 1), (99, 99), (1, 999)):
        completions(text, line, column)
        signature_help(text, line, column)
