"""Texts of thousands of one thing: the time of a check grows as they do, and none is too deep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from nki_lab import check, query
from nki_lab.isa.arch import arch_of
from nki_lab.migrate.migration import migrated
from nki_lab.rules import syntax_error
from nki_lab.source.recovery import names_in
from tests.query.test_many_kernels import HEAD, MOST, growth

BETA1 = "from neuronxcc import nki\nimport neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.language as nl\n"
KERNEL = "@nki.jit\ndef kernel(x: nt.tensor[128, 64]):\n    {}\n    return x\n"
WHILE = "while x:\n        break"


def in_kernel(lines: Sequence[str]) -> list[str]:
    return [HEAD + KERNEL.format("\n    ".join(lines))]


TEXTS: dict[str, tuple[int, Callable[[int], Sequence[str] | list[list[str]]]]] = {
    "calls on one line": (
        400,
        lambda count: in_kernel(["y = [" + ", ".join(f"nl.exp(x, z={i})" for i in range(count)) + "]"]),
    ),
    "loops": (1000, lambda count: in_kernel([WHILE] * count)),
    "classes": (
        400,
        lambda count: in_kernel(
            ["class C0: pass", *(f"class C{i + 1}(C{i}): pass\n    C{i + 1}()" for i in range(count))]
        ),
    ),
    "functions": (1000, lambda count: in_kernel([f"def f{i}(x): return x" for i in range(count)])),
    "decorators": (300, lambda count: [HEAD + "@(lambda f: f)\n" * count + "def g(x):\n    return x\n"]),
    "words": (2000, lambda count: [HEAD + "x = = " + "for a " * count + "\n"]),
    "cells": (2000, lambda count: [["x = 1", *[""] * count]]),
    "broken cells": (500, lambda count: [["x = = 1"] * count]),
    "cells that return": (800, lambda count: [["return 1"] * count]),
}


@pytest.mark.extended
@pytest.mark.parametrize("kind", TEXTS)
def test_four_times_as_many_take_about_four_times_as_long(kind: str) -> None:
    size, texts = TEXTS[kind]
    assert growth(texts, size) <= MOST  # type: ignore[arg-type]


ELIF = "@nki.jit\ndef kernel(x, n):\n    if n == -1:\n        t = x\n{}    return t\n"


@pytest.mark.parametrize("head", [HEAD, BETA1], ids=["current", "beta1"])
@pytest.mark.parametrize("count", [400, 900])
def test_chains_of_elif_are_checked_and_migrated(head: str, count: int) -> None:
    text = head + ELIF.format("".join(f"    elif n == {i}:\n        t = nl.exp(x)\n" for i in range(count)))
    found = check("k.py", source=text)
    assert {item.code for item in found} <= {"NKI121", "NKI337", "NKI101"}
    done = migrated(text, "k.py", query.EvaluationRequest(arch=arch_of("trn2")))
    assert done.is_changed or {item.code for item in done.findings} <= {"NKI610"}


def test_a_name_of_a_chain_of_elif_ends_with_it() -> None:
    text = BETA1 + ELIF.format("    elif n == 0:\n        u = nl.exp(x)\n    elif n == 1:\n        u = 1\n    v = u\n")
    assert [item.code for item in check("k.py", source=text)] == ["NKI121"]
    text = BETA1 + ELIF.format("    elif n == 0:\n        u = nl.exp(x)\n    elif n == 1:\n        pass\n    v = u\n")
    found = [item for item in check("k.py", source=text) if item.code == "NKI337"]
    assert [(item.line, item.message) for item in found] == [(12, "u is used after the branch that makes it")]


@pytest.mark.parametrize(
    "statement",
    [
        "match x:\n    case [" + ", ".join(f"a{i}" for i in range(3000)) + "]:\n        pass\n",
        "def f(x):\n" + "".join(f"    def f{i}(x): return x\n" for i in range(1500)),
    ],
    ids=["pattern", "scopes"],
)
def test_what_the_compiler_takes_gigabytes_or_minutes_for_is_not_compiled(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(tree: object, *more: object, **options: object) -> object:
        sizes.append(len(tree.body))  # type: ignore[attr-defined]
        return compile(tree, *more, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(syntax_error, "compile", counted, raising=False)
    found = query.Document("k.py").update(f"print()\n{statement}return 1\n")
    assert sizes == [2]
    assert [item.code for item in found] == ["NKI101"]


def test_targets_of_loops_on_broken_lines_are_bound() -> None:
    for line, names in (
        ("x = = [a for a, b in c", ["a", "b"]),
        ("for  a , b  in c = =", ["a", "b"]),
        ("for a inside in b = =", ["a", "inside"]),
        ("for a for b in c = =", ["a", "b"]),
        ("for in c = =", []),
    ):
        assert [name for name in names_in(line)[0] if name != "x"] == names


def test_a_cell_that_is_too_deep_is_told_where_it_stands() -> None:
    found = query.Document("k.ipynb").update(["x = 1", "y = 2", "z = " + "-" * 20_000 + "1"])
    assert [(item.code, item.line) for item in found] == [("NKI101", 3)]
