"""A document over its versions: what is remembered is what would be found afresh."""

from __future__ import annotations

import gc
import itertools
import re
import time
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Budget, Stopped
from nki_lab.kernel_runtime.interpreter.evaluation import MeteredBuilder
from nki_lab.query import Document, EvaluationRequest, Examination, found_calls, one_kernel
from nki_lab.query import kernels as kernels_module
from nki_lab.query.navigation.reading import reading_of_facts
from nki_lab.source import syntax_facts
from tests.fuzz.typing_again import difference, regressions
from tests.scale import scaled

QUESTION = EvaluationRequest(arch=arch_of("trn2"))
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\nimport numpy as np\n"
MODULE = f"""{HEAD}
SIZE = 64


def helper(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)


def unused(tile):
    return tile[0:999]


@nki.jit
def first(x: nt.tensor[128, 64]):
    tile = nl.load(x)
    helper(tile)
    nisa.tensor_copy(dst=tile, src=x)
    return x


@nki.jit
def second(y):
    acc = nl.ndarray((128, SIZE), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=nl.load(y), src=acc)
    return y[0:999]


def launch():
    second(np.zeros((128, 64), np.float32))


if __name__ == "__main__":
    launch()
"""
LINES = MODULE.split("\n")


def examined(source: str | list[str]) -> Examination:
    document = Document("k.py")
    document.update(source)
    return document.examine(QUESTION)


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(LINES) if text in line)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are really evaluated, in order; those without a call are, with one assumption after another."""
    names: list[str] = []
    evaluate = kernels_module.evaluate

    def counted(module: object, name: str, *more: object, **others: object) -> object:
        if names[-1:] != [name]:
            names.append(name)
        return evaluate(module, name, *more, **others)  # type: ignore[arg-type]

    for module in (kernels_module, one_kernel):
        monkeypatch.setattr(module, "evaluate", counted)
    monkeypatch.setattr(found_calls, "_kept", OrderedDict())  # other documents may have had the same text
    return names


def test_nothing_changed_is_nothing_evaluated(asked: list[str]) -> None:
    document = Document("k.py")
    for _ in range(3):
        document.update(MODULE)
        found = document.examine(QUESTION)
    assert asked == ["first", "second", "unused"]
    assert [item.code for item in found.findings] == ["NKI201", "NKI301", "NKI303"]


@pytest.mark.parametrize(
    ("text", "replacement", "evaluated"),
    [
        ("    return tile[0:999]", "    return tile[0:99] # unused", ["unused"]),
        ("    helper(tile)", "    helper(tile)  # typed", ["first"]),
        ("operand0=2.0", "operand0=3.0", ["first"]),
        ("    acc = nl", "    acc  = nl", ["second"]),
        ("SIZE = 64", "SIZE = 32", ["first", "second", "unused"]),
        ("    second(np.zeros((128, 64)", "    second(np.zeros((128, 32)", ["second"]),
        ("SIZE = 64", "SIZE = 64\n\n", []),
        ("    launch()", "    launch( )", ["first", "second", "unused"]),
    ],
)
def test_what_is_evaluated_again_is_what_reads_the_change(
    asked: list[str], text: str, replacement: str, evaluated: list[str]
) -> None:
    document = Document("k.py")
    document.update(MODULE)
    document.examine(QUESTION)
    asked.clear()
    changed = MODULE.replace(text, replacement)
    assert changed != MODULE
    document.update(changed)
    found = document.examine(QUESTION)
    assert asked == evaluated
    assert found == examined(changed)


@settings(max_examples=scaled(40), deadline=None)
@given(st.data())
def test_remembered_answers_are_fresh_answers(data: st.DataObject) -> None:
    document, lines = Document("k.py"), list(LINES)
    for _ in range(data.draw(st.integers(2, 5))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["blank", "delete", "comment", "swap", "break", "number"])):
            case "blank":
                lines.insert(at, "")
            case "delete":
                del lines[at]
            case "comment":
                lines[at] += "  # typed"
            case "swap":
                lines[at : at + 2] = reversed(lines[at : at + 2])
            case "break":
                lines[at] += "("
            case _:
                lines[at] = lines[at].replace("64", "32").replace("999", "99")
        source = "\n".join(lines)
        assert document.update(source) == Document("k.py").update(source)
        assert document.examine(QUESTION) == examined(source)


def test_cells_are_remembered_wherever_they_move(asked: list[str]) -> None:
    cells = [HEAD, *(f"@nki.jit\ndef k{i}(x: nt.tensor[128, 64]):\n    return x[0:999]" for i in range(3))]
    document = Document("n.ipynb")
    document.update(cells)
    first = document.examine(QUESTION)
    assert [item.line for item in first.findings] == [9 + 3 * i for i in range(3)]
    asked.clear()
    document.update([cells[0], "# note\n\n", *cells[1:]])
    moved = document.examine(QUESTION)
    assert asked == []
    assert [item.line for item in moved.findings] == [item.line + 3 for item in first.findings]


def test_texts_of_findings_name_the_lines_of_today() -> None:
    source = f"{HEAD}@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    a = nl.load(x)\n    nisa.tensor_copy(dst=a, src=a[:, 0:3])\n    return x\n"
    document = Document("k.py")
    document.update(source)
    (before,) = document.examine(QUESTION).findings
    document.update("\n\n\n" + source)
    (after,) = document.examine(QUESTION).findings
    assert (before.line + 3, after) == (after.line, examined("\n\n\n" + source).findings[0])


def test_a_question_about_another_target_is_another_question(asked: list[str]) -> None:
    document = Document("k.py")
    document.update(MODULE)
    document.examine(QUESTION)
    document.examine(EvaluationRequest(arch=arch_of("trn3")))
    assert asked == ["first", "second", "unused"] * 2


def test_an_examination_can_be_stopped_and_asked_for_again() -> None:
    document = Document("k.py")
    document.update(f"{HEAD}@nki.jit\ndef k(x: nt.tensor[8, 8]):\n    for i in range(10**9):\n        pass\n")
    with pytest.raises(Stopped):
        document.examine(EvaluationRequest(arch=arch_of("trn2"), budget=Budget(stop=lambda: True)))
    (found,) = document.examine(EvaluationRequest(arch=arch_of("trn2"), budget=Budget(steps=5000))).findings
    assert found.code == "NKI120"


def test_a_file_has_steps_of_its_own() -> None:
    loop = "@nki.jit\ndef k{}(x: nt.tensor[8, 8]):\n    for i in range(10**9):\n        pass\n"
    document = Document("k.py")
    document.update(HEAD + "".join(loop.format(i) for i in range(20)))
    request = EvaluationRequest(arch=arch_of("trn2"), budget=Budget(steps=80_000), steps=200_000)
    found = document.examine(request).findings
    assert [item.code for item in found] == ["NKI120"] * 20
    assert "took the 200,000 steps of a file" in found[-1].message


def test_findings_do_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "@nki.jit\ndef k{}(x: nt.tensor[8, 8]):\n    for i in range({}):\n        x[0:9]\n    return y\n"
    text = HEAD + "".join(loop.format(i, 10**i) for i in range(6)) + "def f(:\n" * 3
    request = EvaluationRequest(arch=arch_of("trn2"), budget=Budget(steps=20_000), steps=50_000)
    found = []
    for hurry in (0.0, 1e6):
        elapsed = itertools.count()
        for clock in ("perf_counter", "monotonic", "process_time", "time"):
            monkeypatch.setattr(time, clock, lambda elapsed=elapsed, hurry=hurry: next(elapsed) * hurry)
        document = Document("k.py")
        document.update(text)
        found.append(document.examine(request).findings)
    monkeypatch.undo()
    assert found[0] == found[1]
    assert {item.code for item in found[0]} >= {"NKI101", "NKI102", "NKI120"}


def test_no_module_that_decides_findings_reads_a_clock() -> None:
    folder = Path(nki_lab.__file__).parent
    parts = ("query", "rules", "source", "kernel_runtime/interpreter", "kernel_runtime/allocate", "kernel_runtime/race")
    files = [file for part in parts for file in (folder / part).rglob("*.py")]
    assert len(files) > 50
    assert not [
        file for file in files if re.search(r"perf_counter|monotonic|process_time|import time", file.read_text())
    ]


def test_names_bound_twice_are_two_kernels() -> None:
    again = MODULE.replace("0:999]", "0:99]").replace("    nisa.tensor_copy(dst=tile, src=x)\n", "")
    found = examined([MODULE, again.removeprefix(HEAD)]).findings
    assert [(item.code, item.line) for item in found] == [
        (item.code, item.line) for item in examined(MODULE).findings
    ] + [(item.code, item.line + len(LINES) - 5) for item in examined(again).findings]


def test_what_was_left_out_is_doubted() -> None:
    source = f"""{HEAD}
@nki.jit
def k(x: nt.tensor[128, 64]):
    tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.memset(dst=tile, value=
    made = nl.exp(tile
    nisa.tensor_copy(dst=made, src=tile)
    nl.store(out, made
    return out
"""
    assert {item.code for item in examined(source).findings} == {"NKI101"}


@pytest.mark.extended
def test_every_kernel_of_ours_is_remembered_right() -> None:
    for file in sorted((Path(__file__).parents[1] / "kernels").glob("*.py")):
        source = file.read_text(encoding="utf-8")
        document = Document(str(file))
        document.update(source)
        document.examine(QUESTION)
        document.update("# above\n" + source)
        moved = document.examine(QUESTION)
        fresh = Document(str(file))
        fresh.update("# above\n" + source)
        assert moved == fresh.examine(QUESTION), file.name


STORED = f"""{HEAD}
@nki.jit
def k(x, both):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    first, second = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=second, value=1.0)
    if both:
        nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.add)
    nl.store(out, first)
    return out

"""


@pytest.mark.parametrize(
    ("calls", "codes"),
    [
        (((64, False), (32, False)), ["NKI414"]),
        (((64, False),), []),
        (((64, True),), []),
        (((64, True), (64, False)), []),
    ],
)
def test_a_store_is_dead_where_no_call_reads_it(calls: tuple[tuple[int, bool], ...], codes: list[str]) -> None:
    """One call alone tells nothing of what depends on its arguments."""
    text = STORED + "".join(f"k(np.zeros((128, {size}), np.float32), {both})\n" for size, both in calls)
    document = Document("k.py")
    document.update(text)
    assert [item.code for item in document.examine(QUESTION).findings] == codes


def test_what_is_read_again_has_the_findings_of_a_new_text() -> None:
    for seed in [*(number for number, _ in regressions()), *range(scaled(80))]:
        found = difference(seed)
        assert not found, found


def test_examinations_of_texts_that_are_gone_are_forgotten() -> None:
    document = Document("k.py")
    sizes = []
    for number in range(60):
        document.update(MODULE + "\n".join(f"x{i} = {i}" for i in range(number)))
        document.examine(QUESTION)
        sizes.append(len(document.results))
    assert sizes[-1] == sizes[20] < 60


def test_a_statement_that_is_taken_back_costs_no_evaluation(asked: list[str]) -> None:
    document = Document("k.py")
    for text in (MODULE, MODULE + "x = 1\n"):
        document.update(text)
        document.examine(QUESTION)
    asked.clear()
    document.update(MODULE)
    document.examine(QUESTION)
    assert asked == []


def test_nothing_of_an_examined_program_is_kept() -> None:
    document = Document("k.py")
    for number in range(3):
        document.update(MODULE.replace("SIZE = 64", f"SIZE = {number + 8}"))
        document.examine(QUESTION)
    gc.collect()
    assert not [item for item in gc.get_objects() if isinstance(item, MeteredBuilder)]


def test_a_text_that_is_read_again_leaves_no_garbage() -> None:
    facts = syntax_facts(MODULE, "k.py", as_typed=True)
    reading = reading_of_facts(facts)
    gc.collect()
    gc.disable()
    try:
        for line in range(0, len(LINES), 3):
            text = "\n".join([*LINES[:line], "    x = f(1", *LINES[line:]])
            facts = syntax_facts(text, "k.py", as_typed=True, before=facts)
            reading = reading_of_facts(facts, reading)
        del text
        assert gc.collect() < 200
    finally:
        gc.enable()


DECLARED = """import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128


def apart():
    pass  # a statement beside a change is read again with it


@nki.jit
def product(x, y):
    acc = nl.ndarray((ROWS, 512), nl.float32, buffer=nl.psum)
    tile = nl.ndarray((ROWS, 128), nl.bfloat16, buffer=nl.sbuf)
    rows = nl.ndarray((ROWS, 512), nl.bfloat16, buffer=nl.sbuf)
    apart()
    apart()
    nisa.nc_matmul(dst=acc, stationary=tile, moving=rows)
    nisa.tensor_copy(dst=rows, src=acc)
    apart()
    apart()
    return rows
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ROWS = 128", "ROWS = 256"),
        ("512), nl.float32, buffer=nl.psum", "512), nl.float32, buffer=nl.sbuf"),
        ("128), nl.bfloat16", "256), nl.bfloat16"),
        ("(ROWS, 128), nl.bfloat16", "(ROWS, 128), nl.int32"),
        ("import nki\n", "import nki.language as nisa\nimport nki\n"),
        ("import nki\n", "import numpy as nisa\nimport nki\n"),
        ("    rows = ", "    global tile\n    rows = "),
        ("    return rows", "    tile = 3\n    return rows"),
    ],
)
def test_a_call_that_was_right_is_looked_at_again_when_a_name_in_it_means_something_else(old: str, new: str) -> None:
    changed = DECLARED.replace(old, new)
    assert changed != DECLARED
    document = Document("typed.py")
    for text in (DECLARED, changed, DECLARED, changed + "\n"):
        assert document.update(text) == Document("typed.py").update(text)
    assert document.update(DECLARED) == []
