"""A whole check of hostile files: bounded in time and memory, a finding where something is not looked at, no failure.

What single constructs can do is in tests/kernel_runtime/interpreter/test_evaluator_hostile.py; here are whole files, of
both dialects, as an editor or a folder may hold them.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import cli, query
from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import Budget
from tests.scale import scaled
from tests.snippets import snippets

BUDGET = Budget(steps=50_000)
SECONDS = 20.0  # for one file on a busy machine; each takes less than one on an idle one
DEPTH = 10_000

HEADS = {
    "current": "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n",
    "beta1": "from neuronxcc import nki\nimport neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.language as nl\n"
    "import neuronxcc.nki.typing as nt\n",
}
KERNEL = """
@nki.jit
def kernel(x: nt.tensor[(128, 64), nl.float32]):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
{}
    nl.store(out, t)
    return out
"""


def answered(source: str | bytes, **more: object) -> list[Diagnostic]:
    """The findings in a file, in bounded time, none of them our own failure, each within the file."""
    start = perf_counter()
    found = query.check(source=source, path="kernel.py", target="trn2", budget=BUDGET, **more)  # type: ignore[arg-type]
    assert perf_counter() - start < SECONDS
    assert "NKI901" not in {item.code for item in found}
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    last = len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert all(item.span is not None and 1 <= item.line <= last for item in found)
    return found


DEEP = {
    "parentheses": "y = " + "(" * DEPTH + "1" + ")" * DEPTH,
    "open parentheses": "y = " + "(" * DEPTH,
    "brackets": "y = " + "[" * DEPTH + "]" * DEPTH,
    "braces": "y = " + "{1: " * DEPTH + "1" + "}" * DEPTH,
    "calls": "y = " + "f(" * DEPTH + ")" * DEPTH,
    "call chain": "y = f" + "()" * DEPTH,
    "attributes": "y = t" + ".a" * DEPTH,
    "attributes that Python's parser takes": "y = t" + ".a" * 1500,
    "names of names": "a0 = nl\n" + "\n".join(f"a{i + 1} = a{i}" for i in range(1000)) + "\ny = a1000.add",
    "attributes of attributes": "a0 = nl\n" + "\n".join(f"a{i + 1} = a{i}.a" for i in range(1000)) + "\ny = a1000.a",
    "subscripts": "y = t" + "[0]" * DEPTH,
    "signs": "y = " + "-" * DEPTH + "1",
    "nots": "y = " + "not " * DEPTH + "1",
    "sums": "y = " + "+".join(["1"] * DEPTH),
    "powers": "y = " + "**".join(["1"] * DEPTH),
    "comparisons": "y = " + " < ".join(["1"] * DEPTH),
    "conjunctions": "y = " + " and ".join(["t"] * DEPTH),
    "conditionals": "y = " + "1 if t else " * DEPTH + "2",
    "lambdas": "y = " + "lambda: " * DEPTH + "1",
    "comprehensions": "y = " + "[" * 90 + "1" + " for i in range(9)]" * 90,
    "targets": "(" * DEPTH + "a" + ",)" * DEPTH + " = t",
    "f-strings": "y = " + "f'{" * DEPTH,
    "nested f-strings": "y = " + 'f"{' + "f'{t}'" + '}"',
    "f-string parts": "y = f'" + "{t}" * (DEPTH // 10) + "'",
    "format": "y = f'{t:" + "{1}" * 1000 + "}'",
    "elifs": "if t: pass\n" + "elif 0: pass\n" * DEPTH,
    "blocks": "".join("    " * i + "if 1:\n" for i in range(300)) + "    " * 300 + "pass",
    "functions": "".join("    " * i + f"def f{i}():\n" for i in range(80)) + "    " * 80 + "pass",
    "decorators": "@f\n" * (DEPTH // 10) + "def g(): pass",
    "parameters": "def g(" + ", ".join(f"a{i}=1" for i in range(DEPTH)) + "): pass\ng()",
    "arguments": "f(" + ", ".join(["t"] * DEPTH) + ")",
    "names": "\n".join(f"a{i} = {i}" for i in range(DEPTH // 10)),
    "annotation": "y: " + "[" * DEPTH + "]" * DEPTH + " = 1",
    "semicolons": "; ".join(["y = 1"] * (DEPTH // 10)),
    "continued": "y = 1 + \\\n" * DEPTH + "    1",
}
"""Statements of a kernel, by what there is thousands of, or as much as Python's own parser takes."""

OF_BETA_1 = {"subscripts", "sums", "comparisons", "conjunctions", "arguments", "annotation"}
"""Those that are asked of a kernel of Beta 1: the parts of its language that have code of their own."""


@pytest.mark.parametrize("name", DEEP)
def test_ten_thousand_of_anything_are_answered(name: str) -> None:
    body = "\n".join(f"    {line}" for line in DEEP[name].split("\n"))
    answered(HEADS["beta1" if name in OF_BETA_1 else "current"] + KERNEL.format(body))


@pytest.mark.parametrize("count", [10, 200, 1000])
def test_a_name_behind_many_others_is_known_in_any_order(count: int) -> None:
    names = [f"a{i + 1} = a{i}" for i in range(count)]
    for lines in (names, names[::-1]):
        found = answered("\n".join([HEADS["current"], "a0 = nl", *lines, f"y = a{count}.nothing"]))
        assert [item.code for item in found] == ["NKI006"]


def test_names_that_are_assigned_in_a_circle_are_answered() -> None:
    names = [f"a{i} = a{(i + 1) % 100}.x" for i in range(100)]
    answered("\n".join([HEADS["current"], "def f():", *(f"    {line}" for line in names), "    return a0.nothing"]))


HUGE = {
    "a number": "y = " + "9" * 100_000,
    "a power": "y = 10 ** 10 ** 10",
    "a shift": "y = 1 << 10 ** 12",
    "a text": "y = 'x' * 10 ** 12",
    "a list": "y = [0] * 10 ** 12",
    "a literal": "y = [" + "0, " * 20_000 + "]",
    "a string": "y = '" + "x" * 2_000_000 + "'",
    "a range": "for i in range(10 ** 15):\n        t[0:1]",
    "an affine range": "for i in nl.affine_range(10 ** 15):\n        t[0:1, 0:1]",
    "ranges": "for i in range(10 ** 6):\n        for j in range(10 ** 6):\n            pass",
    "a shape": "y = nl.ndarray((128, 10 ** 15), dtype=nl.float32, buffer=nl.sbuf)",
    "a rank": "y = nl.ndarray((1,) * 10 ** 6, dtype=nl.float32, buffer=nl.sbuf)",
    "a format": "y = f'{1:{10 ** 9}}'",
    "recursion": "def f(n):\n        return f(n + 1)\n    f(0)",
    "mutual recursion": "def f(n):\n        return g(n)\n    def g(n):\n        return f([n])\n    f(0)",
    "an endless loop": "while True:\n        nl.exp(t)",
    "a loop that grows": "a = [t]\n    while a:\n        a = a + a",
    "a loop on a list that grows": "a = [t]\n    for i in a:\n        a.append(i)",
}


NESTED = {
    "iterables of lists": "z = " + "[x for x in " * 30 + "y" + "]" * 30,
    "iterables of dicts": "z = " + "{x: x for x in " * 30 + "y" + "}" * 30,
    "iterables of generators": "z = " + "list(x for x in " * 30 + "y" + ")" * 30,
    "iterables of tests": "z = " + "any(x for x in " * 30 + "y" + ")" * 30,
    "items": "z = " + "[" * 30 + "y" + " for x in (1,)]" * 30,
    "annotations": f"@nki.jit\ndef assumed(x: {'list[' * 30}int{']' * 30}):\n    nl.exp(x)\n",
    "tuples in annotations": f"@nki.jit\ndef assumed(x: {'tuple[' * 30}int{', ...]' * 30}):\n    nl.exp(x)\n",
}


@pytest.mark.parametrize("name", NESTED)
def test_what_is_nested_is_looked_at_once(name: str) -> None:
    answered(HEADS["current"] + NESTED[name] + "\n")


@pytest.mark.parametrize("name", HUGE)
def test_huge_values_and_endless_work_are_bounded(name: str) -> None:
    dialect = "beta1" if "range" in name or "rank" in name else "current"
    answered(HEADS[dialect] + KERNEL.format(f"    {HUGE[name]}"))


def test_memory_stays_bounded() -> None:
    tracemalloc.start()
    try:
        for name in ("a text", "a list", "a shape", "a loop that grows", "a rank"):
            answered(HEADS["current"] + KERNEL.format(f"    {HUGE[name]}"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300 * 2**20


BYTES = {
    "nothing": b"",
    "an executable": b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 64,
    "zeros": b"\0" * 100_000,
    "every byte": bytes(range(256)),
    "UTF-16": "import nki\n@nki.jit\ndef k(x): return x\n".encode("utf-16"),
    "UTF-32": "import nki\n".encode("utf-32"),
    "broken UTF-8": b"import nki\nx = '\xc3\x28 \xf0\x28\x8c\x28'\n",
    "a surrogate in UTF-8": b"x = '\xed\xa0\x80'\n",
    "Latin-1 unsaid": "é = 1\n".encode("latin-1"),
    "an unknown encoding": b"# -*- coding: klingon -*-\nx = 1\n",
    "an encoding that is none": b"# coding: zlib\nx = 1\n",
    "an encoding and a mark that differ": b"\xef\xbb\xbf# coding: latin-1\nx = 1\n",
    "a mark twice": b"\xef\xbb\xbf\xef\xbb\xbfx = 1\n",
    "one long line": b"x = 1; " * 5_000,
    "many lines": b"\n" * 200_000,
    "carriage returns": b"x = 1\r" * 5_000,
    "form feeds": b"\x0c" * 50_000 + b"x = 1",
    "tabs and spaces": b"if 1:\n\tx = 1\n        y = 2\n",
    "an archive": b"PK\x03\x04" + b"\x14\x00" * 500,
    "a notebook": b'{"cells": [], "nbformat": 4}',
}


@pytest.mark.parametrize("name", BYTES)
def test_files_of_any_bytes_are_answered(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered(BYTES[name])
    file = tmp_path / "kernel.py"
    file.write_bytes(BYTES[name])
    assert cli.main(["check", str(file)]) in (0, 1)
    assert "Traceback" not in "".join(capsys.readouterr())


def sources() -> Iterator[str]:
    """The kernels that the rules' documents show, with their imports."""
    for document in sorted((Path(__file__).parents[1] / "rules").glob("*.md")):
        for snippet in snippets(document.read_text(encoding="utf-8")):
            if snippet.is_full:
                yield snippet.head + snippet.source


SOURCES = list(sources())
PIECES = ["(", ")", "[", "]", "{", ":", ",", ".", "=", "*", "-", "0", "128", "10**9", "None", "x", "t", "nl.", "nisa.",
          "for i in ", "while ", "if ", "else:", "return ", "lambda: ", "def f(): ", "class C: ", "\n", "\n    ", "\t",
          "'", '"""', "#", "\\", "f'{", "\0", "é", "😀", "\ud800", " and ", " is ", "nl.arange(3)", "[:, None]"]  # fmt: skip


@st.composite
def edited(draw: st.DrawFn) -> str:
    """A kernel with a few edits: pieces taken out, put in, doubled, or taken from another kernel."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 30)))
        other = draw(st.sampled_from(SOURCES))
        piece = draw(st.sampled_from([*PIECES, "", text[start:stop] * 2, other[-80:-20]]) | st.text(max_size=3))
        text = text[:start] + piece + text[stop:]
    return text


@settings(max_examples=scaled(40), deadline=None)
@given(edited())
def test_an_edited_kernel_is_answered(source: str) -> None:
    answered(source)


@settings(max_examples=10, deadline=None)
@given(edited(), edited())
def test_a_document_that_is_edited_answers_as_a_fresh_one(first: str, second: str) -> None:
    document = query.Document("kernel.py")
    for text in (first, second, first):
        document.update(text)
    fresh = query.Document("kernel.py")
    assert document.update(second) == fresh.update(second)
