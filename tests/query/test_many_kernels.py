"""Files of many kernels: the module is evaluated once, and each kernel as if it stood alone."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import check, query
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter.module_states import ModuleStates
from nki_lab.query import evaluation_cache, messages, one_kernel
from nki_lab.query.evaluation_cache import Examination

pytestmark = pytest.mark.extended

KERNELS = sorted((Path(__file__).parents[1] / "kernels").glob("*.py"))[::6]
HEAD = """import functools
from dataclasses import dataclass
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

ROWS = 128
SIZES = [512, 64]
TABLE = {"rows": [64], "made": ()}


class Shared:
    width = 512


@dataclass
class Options:
    width: int = 512


OPTIONS = Options()
SEEN = {3}


def grown(found=[7]):
    found.append(len(SEEN))
    SEEN.add(len(found))
    return len(found)



def made(rows, columns):
    return nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)

"""
BODIES = (
    "nisa.tensor_copy(dst=made(ROWS, SIZES[0]), src=made(ROWS, 512))",
    "SIZES[0] = 64\n    nisa.tensor_copy(dst=made(ROWS, SIZES[0]), src=made(ROWS, 64))",
    "SIZES.append(3)\n    nisa.tensor_copy(dst=made(ROWS, len(SIZES)), src=made(ROWS, 2))",
    "TABLE['rows'].append(1)\n    nisa.tensor_copy(dst=made(len(TABLE['rows']), 8), src=made(1, 8))",
    "TABLE['more'] = 1\n    nisa.tensor_copy(dst=made(len(TABLE), 8), src=made(2, 8))",
    "Shared.width = 64\n    nisa.tensor_copy(dst=made(ROWS, Shared.width), src=made(ROWS, 64))",
    "nisa.tensor_copy(dst=made(ROWS, Shared.width), src=made(ROWS, 512))",
    "OPTIONS.width = 64\n    nisa.tensor_copy(dst=made(ROWS, OPTIONS.width), src=made(ROWS, 64))",
    "nisa.tensor_copy(dst=made(ROWS, OPTIONS.width), src=made(ROWS, 512))",
    "global ROWS\n    ROWS = 64\n    nisa.tensor_copy(dst=made(ROWS, 8), src=made(64, 8))",
    "nisa.tensor_copy(dst=made(ROWS, 8), src=made(64, 8))",
    "nisa.tensor_copy(dst=x, src=made(ROWS, 8))",
    "rows = TABLE.pop('rows')\n    rows.clear()\n    nisa.tensor_copy(dst=made(len(rows) + 1, 8), src=made(2, 8))",
    "grown()\n    nisa.tensor_copy(dst=made(len(SEEN), 8), src=made(1, 8))",
    "nisa.tensor_copy(dst=made(grown(), 8), src=made(5, 8))",
    "return made(ROWS, 8)",
)
HEADS = ("@nki.jit\ndef {}(x):\n    ", "@nki.jit\ndef {}(x: nt.tensor[128, 64]):\n    ", "def {}(x, n: int):\n    ")

OF_MODULES = ("NKI121", "NKI125")


def findings(source: str) -> list[tuple[str, str, str]]:
    """The code of each finding, the text of its line, and its message; without those about a module as a whole."""
    lines = source.split("\n")
    found = check("k.py", source=source)
    return [(item.code, lines[item.line - 1], item.message) for item in found if item.code not in OF_MODULES]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(HEADS), st.sampled_from(BODIES)), min_size=2, max_size=6))
def test_a_file_of_kernels_has_the_findings_of_each(parts: list[tuple[str, str]]) -> None:
    functions = [head.format(f"f{number}") + body + "\n    return x\n\n" for number, (head, body) in enumerate(parts)]
    together = findings(HEAD + "".join(functions))
    assert sorted(together) == sorted(item for function in functions for item in findings(HEAD + function))


def examined(path: Path) -> Examination:
    document = query.Document(str(path))
    document.update(path.read_text(encoding="utf-8"))
    return document.examine(query.EvaluationRequest(arch=arch_of("trn2")))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_all_that_is_known_is_what_evaluating_the_module_each_time_tells(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = examined(path)

    def each_time(_states: Any, _key: Any, interpreter: Any, run: Callable[[Any], bool], _most: int) -> None:
        run(interpreter)

    monkeypatch.setattr(ModuleStates, "enter", each_time)
    assert once == examined(path)


def test_the_statements_of_a_module_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, enter = [], ModuleStates.enter

    def counted(states: Any, key: Any, interpreter: Any, run: Callable[[Any], bool], most: int) -> None:
        def noted(given: Any) -> bool:
            runs.append(key)
            return run(given)

        enter(states, key, interpreter, noted, most)

    monkeypatch.setattr(ModuleStates, "enter", counted)
    kernel = "@nki.jit\ndef f{}(x):\n    nisa.tensor_copy(dst=made(ROWS, 8), src=made(64, 8))\n    return x\n\n"
    found = findings(HEAD + "".join(map(kernel.format, range(40))))
    assert len(found) == 40
    assert len(runs) == 1


def test_the_last_of_many_kernels_is_checked_too() -> None:
    # 8,000 steps, which a run with drawn values may take, are fewer than the statements of this module
    long = "@nki.jit\ndef f{}(x):\n" + "    x = x\n" * 100 + "    return x\n\n"
    wrong = "@nki.jit\ndef last(x):\n    nisa.tensor_copy(dst=made(ROWS, 8), src=made(64, 8))\n    return x\n"
    found = findings(HEAD + "".join(map(long.format, range(120))) + wrong)
    assert [item[0] for item in found] == ["NKI203"]


def kernels(count: int, line: str) -> str:
    """A module with so many kernels, each with shapes, and as many tables as kernels."""
    tables = "".join(f"T{i} = [{i}, (1, {{'a': [{i}]}})]\n" for i in range(count))
    kernel = "@nki.jit\ndef f{0}(x: nt.tensor[128, 64]):\n    {1}\n    return x\n\n"
    return HEAD + tables + "".join(kernel.format(i, line.format(i)) for i in range(count))


def seconds(texts: Sequence[str]) -> float:
    """Processor time of examining a text, and each that follows it."""
    document = query.Document("k.py")
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        for text in texts:
            document.update(text)
            document.examine(query.EvaluationRequest(arch=arch_of("trn2")))
        return time.process_time() - begun
    finally:
        gc.enable()


TIMES = 4
"""How much longer the larger of two texts is. It takes 3 to 4.7 times as long, 10 times where the module is evaluated for
each of 150 kernels, and 16 where all grows with the square."""
MOST = 7.0


def growth(texts: Callable[[int], Sequence[str]], size: int) -> float:
    """How many times as long the larger text takes: the least times of up to six rounds, of fewer where that is clear."""
    small = large = math.inf
    for _ in range(6):
        small, large = min(small, seconds(texts(size))), min(large, seconds(texts(TIMES * size)))
        if large <= MOST * small:
            break
    return large / small


@pytest.mark.parametrize("line", ["SIZES.append({})", "TABLE[{}] = []", "T{}[0] = 7", "OPTIONS.width = {}"])
def test_kernels_that_change_objects_of_the_module_take_time_in_proportion(line: str) -> None:
    assert growth(lambda size: [kernels(size, line)], 150) <= MOST


def test_an_edit_of_many_kernels_takes_time_in_proportion() -> None:
    def edits(count: int) -> list[str]:
        text = kernels(count, "n = {}")
        return [text, text.replace("n = 7\n", "n = 8\n"), text.replace("n = 7\n", "n = 8\n    m = 9\n")]

    assert growth(edits, 150) <= MOST


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are evaluated with shapes, in order."""
    names, evaluate = [], one_kernel.evaluate

    def counted(module: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        names.append(name)
        return evaluate(module, name, *args, **kwargs)

    monkeypatch.setattr(one_kernel, "evaluate", counted)
    return names


def test_an_edit_of_one_of_more_kernels_than_are_kept_evaluates_one(
    evaluated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_cache, "KEPT", 8)
    text, document = kernels(20, "n = {}"), query.Document("k.py")
    for edited in (text, text.replace("n = 7\n", "n = 8\n"), text.replace("n = 9\n", "n = 10\n")):
        evaluated.clear()
        document.update(edited)
        document.examine(query.EvaluationRequest(arch=arch_of("trn2")))
    assert evaluated == ["f7", "f9"]  # f7 is as it was at first, which is not kept
    monkeypatch.setattr(evaluation_cache, "MOST_KEPT", 10)
    document.update(text)
    document.examine(query.EvaluationRequest(arch=arch_of("trn2")))
    assert len(document._cache) <= 10


@pytest.mark.parametrize(
    "text",
    [
        lambda n: f"T = [{', '.join(map(str, range(n * 200)))}]\n",
        lambda n: "T = [\n" + "    1.5,\n" * (n * 200) + "]\n",
        lambda n: "".join(f"def f{i}(:\n    x = (((\n" for i in range(n)),
        lambda n: "x = " + "(" * (n * 20) + "\n",
        lambda n: "\n".join("if x:\n" + " " * (i % 90) + "else: {[(" for i in range(n)),
    ],
    ids=["one line", "lines", "heads", "brackets", "blocks"],
)
def test_tables_and_broken_texts_take_time_in_proportion(text: Callable[[int], str]) -> None:
    assert growth(lambda size: [HEAD + text(size)], 200) <= MOST


EQUAL = (
    "@nki.jit\ndef f{0:03}({1}):\n    t = made(ROWS, 8)\n    nisa.tensor_copy(dst=t, src=made(64, 8))\n    return x\n"
)


@pytest.mark.parametrize("parameter", ["x", "x: nt.tensor[128, 64]"])
def test_equal_functions_have_equal_findings_each_at_its_own_lines(parameter: str) -> None:
    source = HEAD + "".join(EQUAL.format(i, parameter) for i in range(7))
    lines = source.split("\n")
    found = [item for item in check("k.py", source=source) if item.code == "NKI203"]
    assert [item.line for item in found] == [i + 1 for i, line in enumerate(lines) if "src=made(64" in line]
    assert len({item.message for item in found}) == 1


def test_equal_functions_are_evaluated_once(evaluated: list[str]) -> None:
    check("k.py", source=HEAD + "".join(EQUAL.format(i, "x: nt.tensor[128, 96]") for i in range(7)))
    assert evaluated == ["f000"]


@pytest.mark.parametrize(
    "first, second",
    [
        ("def f1(x, n=ROWS):\n    t = made(n, 8)\n    nisa.tensor_copy(dst=t, src=made(128, 8))\n", ""),
        ("def f1(x):\n    nisa.tensor_copy(dst=made(n(f1), 8), src=made(128, 8))\n", ""),
    ],
    ids=["defaults", "its own name"],
)
def test_functions_of_which_more_than_the_text_tells_are_evaluated_each(first: str, second: str) -> None:
    again = first.replace("f1", "f2")
    between = "ROWS = 64\ndef n(f):\n    return 64 if f.__name__ == 'f2' else 128\n"
    alone = findings(HEAD + between + again)
    together = findings(HEAD + first + between + again)
    assert [item for item in together if item in alone] == alone


def test_a_budget_that_ends_is_said_once_for_all_functions_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_SAMPLED", 3)
    source = HEAD + "".join(f"def g{i}(x):\n    nisa.memset(dst=x, value={i}.0)\n\n" for i in range(9))
    found = [item for item in check("k.py", source=source) if item.code == "NKI120"]
    assert len(found) == 1
    assert "g1 and 7 more functions without shapes are not evaluated" in found[0].message


def test_each_kernel_of_a_file_has_what_builders_note() -> None:
    kernel = "@nki.jit\ndef g{0}(x: nt.tensor[128, 8]):\n    return nl.ndarray((128, {0}), nl.float32, nl.sbuf)\n\n"
    source = HEAD + "".join(kernel.format(size) for size in (8, 9, 10))
    found = [item for item in check("k.py", source=source) if item.code == "NKI607"]
    assert [item.note for item in found] == [f"(128, {size}) float32" for size in (8, 9, 10)]


def test_kernels_beyond_the_budget_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_SAMPLED", 3)
    kernels = "".join(
        f"@nki.jit\ndef g{i}(x):\n    nisa.memset(dst=x, value={i}.0)\n    return x\n\n" for i in range(9)
    )
    found = [item for item in check("k.py", source=HEAD + kernels) if item.code == "NKI120"]
    assert [item.message.partition(" are ")[0] for item in found] == ["grown and 7 more functions without shapes"]


def wrong(number: int, line: str) -> str:
    return f"@nki.jit\ndef w{number}(x):\n    {line.format(number)}\n    return x\n\n"


@pytest.mark.parametrize(
    "size, text",
    [
        (600, lambda n: "".join(wrong(i, "nisa.dma_copi(dst=x, src=x)") for i in range(n))),
        (1500, lambda n: "".join(f"def h{i}(x):\n    with x: pass\n\n{wrong(i, f'return h{i}(x)')}" for i in range(n))),
        (600, lambda n: "".join(f"try:\n    made({i}, nl.foo)\nexcept TypeError: pass\n" for i in range(n))),
        (2500, lambda n: wrong(0, "\n    ".join(f"nisa.memset(dst=x, valu={i})" for i in range(n)))),
    ],
    ids=["names", "constructs", "tries", "one kernel"],
)
def test_twice_as_many_findings_take_about_twice_as_long(size: int, text: Callable[[int], str]) -> None:
    assert growth(lambda count: [HEAD + text(count)], size) <= MOST


def test_functions_after_those_that_took_the_runs_of_a_file_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_RUNS", 150)
    sources = [
        HEAD + "".join(wrong(i, f"nisa.tensor_copy(dst=made({i + shift}, 8), src=made(64, 8))") for i in range(9))
        for shift in (2, 3)
    ]
    document, request = query.Document("k.py"), query.EvaluationRequest(arch=arch_of("trn2"))
    for source in (*sources, sources[0]):  # what is known of the former text does not make room for more
        document.update(source)
        fresh = query.Document("k.py")
        fresh.update(source)
        found = document.examine(request).findings
        assert found == fresh.examine(request).findings
        (left_out,) = (item for item in found if item.code == "NKI120")
        assert "150 runs of them with assumed arguments" in left_out.message
        assert 0 < sum(item.code == "NKI203" for item in found) < 9


def test_of_many_kernels_of_one_name_the_last_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "nisa.tensor_copy(dst=made(ROWS, {0} + 8), src=made(ROWS, 8))\n    return nl.shared_hbm.x{0}"
    source = HEAD + "".join(wrong(i, line).replace(f"w{i}(", "w(") for i in range(30))
    monkeypatch.setattr(messages, "MOST_STATEMENTS", 300)
    found = check("k.py", source=source)
    (left_out,) = (item for item in found if item.code == "NKI120")
    evaluated = [item.line for item in found if item.code == "NKI203"]
    assert left_out.message.startswith("w and ")
    assert left_out.help == "give the kernels names of their own"
    number = int(left_out.message.split()[2].replace(",", "")) + 1
    assert 1 < len(evaluated) == 30 - number
    assert evaluated == [i + 1 for i, text in enumerate(source.split("\n")) if "tensor_copy" in text][number:]
    monkeypatch.setattr(messages, "MOST_STATEMENTS", 10**9)
    whole = check("k.py", source=source)
    assert [item.line for item in whole if item.code == "NKI203"][-len(evaluated) :] == evaluated
    assert "NKI120" not in {item.code for item in whole}
