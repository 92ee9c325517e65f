"""Each call of NKI's functions is counted once, by how much of it was checked, with the reason why not more."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Budget
from nki_lab.query import Document, EvaluationRequest
from nki_lab.query.call_sites import REASONS, STATES, CallSite, call_sites, counted, reached_elsewhere, reasons

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n\n"


def sites_of(text: str, file: str = "k.py") -> tuple[CallSite, ...]:
    document = Document(file)
    document.update(text)
    found = document.examine(EvaluationRequest(arch=arch_of("trn2"), budget=Budget(steps=5000)))
    assert document.facts is not None
    return call_sites(document.facts, found.reach)


def checked(text: str) -> list[tuple[str, str, str]]:
    """Name, state and reason of the calls in a module, below the usual imports."""
    found = sites_of(HEAD + textwrap.dedent(text))
    return [(item.name.rpartition(".")[2], item.state, item.reason) for item in found]


KERNEL = """
    @nki.jit
    def kernel(x{annotation}):
        t = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=t, value=0.0)
        {more}
"""


def kernel(more: str = "pass", annotation: str = ": nt.tensor[128, 64]", shape: str = "x.shape") -> str:
    return KERNEL.format(more=more, annotation=annotation, shape=shape)


def test_calls_with_known_shapes_are_checked_fully() -> None:
    assert checked(kernel()) == [("ndarray", "fully", ""), ("memset", "fully", "")]


def test_calls_without_known_shapes_are_checked_partly() -> None:
    assert checked(kernel(annotation="")) == [
        ("ndarray", "partly", "assumed-arguments"),
        ("memset", "partly", "assumed-arguments"),
    ]


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [
        ("nisa.memset(dst=t, value=gone(x))", "partly", "unknown-operand"),
        ("if gone(): nisa.memset(dst=t, value=1.0)", "by name", "unknown-condition"),
        ("for i in gone(): nisa.memset(dst=t, value=1.0)", "by name", "unknown-condition"),
        ("if x.shape[0] > 999: nisa.memset(dst=t, value=1.0)", "by name", "other-branch"),
        ("f = lambda: nisa.memset(dst=t, value=1.0)", "by name", "never-called"),
        ("assert False\n        nisa.memset(dst=t, value=1.0)", "by name", "ended-before"),
        ("for i in range(10**6): z = i\n        nisa.memset(dst=t, value=1.0)", "by name", "over-budget"),
    ],
)
def test_a_call_that_is_not_checked_fully_has_a_reason(more: str, state: str, reason: str) -> None:
    found = checked("from nowhere import gone\n" + textwrap.dedent(kernel(more)))
    assert found[-1] == ("memset", state, reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class C:\n    def m(self, t):\n        nisa.memset(dst=t, value=1.0)\n", "never-called"),
        ("def test_it():\n    nisa.memset(dst=t, value=1.0)\n", "on-host"),
        ("nisa.memset(dst=t, value=1.0)\n", "at-import"),
        ("from nowhere import made\n@made\ndef f(t):\n    nisa.memset(dst=t, value=1.0)\n", "made-elsewhere"),
        ("K = [i for i in range(30_000)]\n" * 40 + "def f(t):\n    nisa.memset(dst=t, value=1.0)\n", "long-module"),
    ],
)
def test_a_function_that_is_not_evaluated_has_a_reason(text: str, reason: str) -> None:
    assert checked(text) == [("memset", "by name", reason)]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("def f(nl):\n    nl.load(1)\n", None),
        ("nl = object()\ndef f(x):\n    nl.load(x)\n", "skipped"),
        ("def f(x):\n    import nki.language as other\n    other.load(x)\n", "partly"),
        ("load = nl.load\ndef f(x):\n    load(x)\n", "partly"),
        ("from nki.language import *\ndef f(x):\n    load(x)\n", "partly"),
        ("if nl:\n    import neuronxcc.nki.isa as nl\ndef test_f(x):\n    nl.load(x)\n", "skipped"),
    ],
)
def test_calls_are_found_by_what_their_names_stand_for(text: str, state: str | None) -> None:
    found = [item.state for item in sites_of(HEAD + text) if item.function]
    assert found == ([] if state is None else [state])


def test_places_are_those_of_the_text() -> None:
    (site,) = sites_of(HEAD + "def f(t):\n    é = 1; nisa.memset(\n        dst=t)\n")
    assert (site.line, site.column, site.end_line, site.end_column) == (7, 12, 8, 14)
    assert (site.name, site.function) == ("nki.isa.memset", "f")


def test_runs_of_other_files_count() -> None:
    sites = sites_of(HEAD + "class C:\n    def m(self, t):\n        nisa.memset(dst=t)\n        nl.load(t)\n")
    first, second = reached_elsewhere(sites, [("k.py", 8, 8)], [])
    assert (first.state, first.reason) == ("fully", "")
    assert (second.state, second.reason) == ("by name", "other-branch")
    first, second = reached_elsewhere(sites, [], [("k.py", 8, 8), ("k.py", 9, 8)])
    assert {first.state, second.state} == {"partly"}


@given(st.lists(st.sampled_from(["nl.load(x)", "y = nl.load(nl.load(x))", "if x: nl.nothing()", "def g(): nl.load(x)",
                                 "class C: y = nl.load(x)", "nl", "pass"]), max_size=6))  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_each_call_is_counted_once(lines: list[str]) -> None:
    text = f"{HEAD}def f(x):\n" + "".join(f"    {line}\n" for line in [*lines, "pass"])
    sites = sites_of(text)
    assert len(sites) == text.count("nl.load(") + text.count("nl.nothing(")
    assert len({(item.line, item.column) for item in sites}) == len(sites)
    assert sum(counted(sites).values()) == len(sites)
    assert sum(reasons(sites).values()) == sum(item.state != "fully" for item in sites)
    assert all(bool(item.reason) == (item.state != "fully") for item in sites)
    assert {item.reason for item in sites} <= {*REASONS, ""}
    assert {item.state for item in sites} <= {*STATES}


def test_a_file_without_python_has_no_calls(tmp_path: Path) -> None:
    document = Document(str(tmp_path / "k.py"))
    document.update(b"\xff\x00")
    assert document.examine(EvaluationRequest(arch=arch_of("trn2"))).reach.operations == frozenset()
