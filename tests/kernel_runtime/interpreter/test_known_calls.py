"""Calls that are known from an earlier evaluation: what is found with them is what is found without."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Assumptions, Budget, KnownCalls, ModuleFinder, evaluate
from nki_lab.kernel_runtime.interpreter.intake import Signature
from nki_lab.kernel_runtime.issue.arguments import spec
from nki_lab.query import Document, EvaluationRequest
from nki_lab.source.module import ModuleSource
from tests.scale import scaled

LIBRARY = """
import nki.isa as nisa
import nki.language as nl

COUNT = {count}
SEEN = []
LIMITS = (1, 2, {count})


class View(nl.NKIObject):
    SHARED = {count}

    def __init__(self, base, sizes):
        self.base = base
        self.sizes = tuple(sizes)
        self.strides = strides(self.sizes)

    def part(self, dim, start):
        sizes = list(self.sizes)
        for i in range(len(sizes)):
            sizes[i] = sizes[i] - start if i == dim else sizes[i] * 1
        made = View(self.base, sizes)
        made.sizes = tuple(sizes)
        return made


def strides(sizes, first=1):
    found = [first]
    for i in range(1, len(sizes)):
        found.append(found[i - 1] * sizes[len(sizes) - i])
    result = []
    for i in range(len(sizes)):
        result.append(found[len(sizes) - i - 1])
    return tuple(result)


def chosen(values, n):
    total = COUNT
    for i in range(6):
        total += values[i % len(values)] * n
    return (values, total, [values, n])


def typed(value):
    kinds = []
    for i in range(8):
        kinds.append("int" if isinstance(value, int) else "float")
    return kinds + [str(value), isinstance(value, bool)]


def changed(values, n):
    for i in range(8):
        values.append(n + i)
    return len(values)


def counted(n):
    global COUNT
    for i in range(8):
        COUNT = COUNT + 1
    return COUNT


def shared(n):
    for i in range(8):
        View.SHARED = View.SHARED + n
    return View.SHARED


def remembered(n):
    for i in range(8):
        SEEN.append(n)
    return len(SEEN)


def defaulted(n, found=[]):
    for i in range(8):
        found.append(i)
    return len(found) + n


def faulty(n):
    for i in range(8):
        n += i
    return n + missing


def guarded(n):
    for i in range(8):
        n += 1
    try:
        return (1, 2)[n]
    except IndexError:
        return n


def closed(n):
    def inner():
        return n + 1
    for i in range(8):
        n += 1
    return inner()


def issued(tile, n):
    for i in range(8):
        n += 1
    nisa.memset(dst=tile, value=0.0)
    return tile[0:n]


def named(tile, n):
    found = {{}}
    for i in range(8):
        found[f"{{i}}{{n}}"] = tile.shape
    found["name"] = tile.dtype
    return found


def asked(n, k):
    for i in range(4):
        if n > k:
            n = n - 1
        elif n == 7:
            k += 1
        else:
            k = k - 2
    return k


def listed(sizes, n):
    for i in range(4):
        n += 1
    found = n in sizes
    assert found, "the sizes have it"
    return n


def walked(n):
    def items():
        yield n
    for i in range(8):
        n += 1
    if n > UNBOUND:
        n = 3
    return n


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
"""
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
from library import *
import library

OWN = 3


def own(n):
    total = OWN
    for i in range(9):
        total += chosen([1, 2], n)[1]
    return total


@nki.jit
def kernel(x: nt.tensor[128, 64]):
    tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    view = View(tile, (4, 8, 2))
    values, flag = [1, 2, 3], True
    for k in range(3):
{}
    return x
"""
LINES = (
    "view = view.part(1, k)", "view = view.part(k, 1)", "view.strides = (1, 2, 3)", "view.sizes = list(view.sizes)",
    "values = chosen(values, k)[0]", "values.append(chosen(values, k)[1])", "chosen(values, 1)[2][0].append(7)",
    "typed(True)[0:9] + typed(1) + typed(1.0) + typed(-0.0) + typed(0.0)", "tile[0:typed(1.0 if k else 1)[9] + 1]",
    "tile[0:changed(values, k)]", "tile[counted(k)]", "tile[0:500 + counted(1)]", "tile[0:130 + shared(k)]",
    "tile[0:130 + remembered(k)]", "tile[0:130 + defaulted(k)]", "faulty(k)", "tile[0:guarded(k) * 99]",
    "tile[0:closed(k) * 99]", "issued(tile, k)", "issued(tile, 200)", "tile[0:130 + len(named(tile, k))]",
    "tile[0:130 + len(named(x, values))]", "tile[0:100 + own(k)]", "tile[0:100 + strides((k, 2, 3))[0]]",
    "tile[0:100 + strides(view.sizes, 40)[0]]", "nisa.tensor_copy(dst=tile[0:strides((1, 200, k))[0]], src=tile)",
    "library.COUNT", "tile[0:100 + library.COUNT]", "tile[0:100 + View.SHARED]", "deep(k)", "deep(70)", "nothing(values)",
    "tile[0:130 + len(chosen(values, k)[2][0])]", "view.part(0, 'a')", "view.part(0, unknown)", "tile[0:chosen(view, 1)]",
    "tile[0:130 + asked(n, k)]", "tile[0:130 + asked(k, 3)]", "tile[0:64 + asked(unknown, k)]", "asked(unknown, n)",
    "listed([n, k], 4)", "listed((n, 64), k)", "assert n > 2 and asked(n, k) < 9", "tile[0:walked(n)]", "walked(k)",
    "strides(view, values)", "values = values if strides(tuple(values)) is None else [2, 9]", "values = [0.5, -0.0]",
)  # fmt: skip


def finder(count: int, folder: Path) -> ModuleFinder:
    (folder / "library.py").write_text(LIBRARY.format(count=count), encoding="utf-8")
    return ModuleFinder((str(folder),))


def text_of(lines: list[str], *, sampled: bool = False) -> str:
    text = KERNEL.format("\n".join(f"        {line}" for line in lines or ["pass"]))
    return text.replace("(x: nt.tensor[128, 64])", "(x: nt.tensor, n: int)") if sampled else text


@pytest.mark.extended
@given(
    versions=st.lists(
        st.tuples(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from((3, 3, 3, 40)), st.booleans()),
        min_size=2, max_size=4,
    ),
    sampled=st.booleans(),
)  # fmt: skip
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_edits_have_the_findings_of_a_fresh_check(
    versions: list[tuple[list[str], int, bool]], sampled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nki_lab.kernel_runtime.interpreter.known_calls._LEAST", 1)
    monkeypatch.setattr("nki_lab.kernel_runtime.interpreter.known_calls._PATIENCE", 50)
    file = tmp_path / "kernel.py"
    document = Document(str(file))
    for lines, count, moved in versions:
        text = "\n" * moved + text_of(lines, sampled=sampled)
        library = finder(count, tmp_path)
        document.update(text)
        request = EvaluationRequest(arch=arch_of("trn2"), library=library, budget=Budget(steps=30_000))
        found = document.examine(request)
        with monkeypatch.context() as plain:
            plain.setattr("nki_lab.kernel_runtime.interpreter.evaluation.CallMemory", lambda *_: None)
            fresh = Document(str(file))
            fresh.update(text)
            assert found == fresh.examine(request)


def test_a_known_call_is_not_evaluated_again_and_costs_its_steps(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").touch()
    source = ModuleSource.parse(text_of(["view = View(tile, (4, 8, 2)).part(1, k)"] * 9), str(tmp_path / "kernel.py"))
    known, arguments = KnownCalls(), Signature(args=(spec((128, 64), "float32"),))
    plain, first, second = (
        evaluate(source, "kernel", arguments, arch="trn2", library=finder(3, tmp_path), known_calls=calls)
        for calls in (None, known, known)
    )
    assert plain.steps == first.steps == second.steps
    assert plain.diagnostics == first.diagnostics == second.diagnostics
    assert known.calls
    node = next(iter(known.calls))[0]  # type: ignore[index]
    assert node.name in {"part", "strides"}


TESTS = [ast.parse(text, mode="eval").body for text in ("a > b", "a == 1", "flag", "a > b", "not flag")]
CHOICES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from((True, False, None)), st.booleans()), max_size=8)


@given(before=CHOICES, inside=CHOICES, later=CHOICES, variant=st.integers(0, 1), settled=st.booleans())
def test_what_is_decided_again_is_what_would_be_decided(
    before: list[tuple[int, bool | None, bool]],
    inside: list[tuple[int, bool | None, bool]],
    later: list[tuple[int, bool | None, bool]],
    variant: int,
    settled: bool,
) -> None:
    def chosen(run: Assumptions, choices: list[tuple[int, bool | None, bool]]) -> list[bool]:
        return [run.choose(TESTS[number], answer, local=local) for number, answer, local in choices]

    first = Assumptions(variant, settled=settled)
    chosen(first, before)
    start = len(first.tests)
    chosen(first, inside)
    decided = first.decided_since(start, None)
    assert decided is not None
    evaluated, known = Assumptions(variant, settled=settled), Assumptions(variant, settled=settled)
    chosen(evaluated, later)
    chosen(known, later)
    state = (dict(known.answers), dict(known.ways), list(known.tests))
    ways = chosen(evaluated, inside)
    if known.decide_again(decided):
        assert ways == [item.way for item in first.tests[start:]]
        assert (known.answers, list(known.ways.items())) == (evaluated.answers, list(evaluated.ways.items()))
        assert chosen(known, before + inside) == chosen(evaluated, before + inside)
    else:
        assert ways != [item.way for item in first.tests[start:]]
        assert state == (known.answers, known.ways, known.tests)


def test_a_comparison_of_a_known_call_demands_the_same() -> None:
    run, other = Assumptions(settled=True), Assumptions(settled=True)
    run.compared = (ast.Eq, (4, "x", 5), (4, "y", 7), False)
    decided = run.decided_since(0, None)
    assert decided is not None
    assert other.decide_again(decided)
    run.refuse()
    other.refuse()
    assert run.demands == other.demands == [(False, 5, 7)]
    run.compared = (ast.In, 4, [1, 2], False)  # the list may have other items when the function refuses
    assert run.decided_since(0, None) is None
