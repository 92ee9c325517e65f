"""Files of many kernels: the module is evaluated once, and each kernel as if it stood alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import check, query
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter.module_states import ModuleStates
from nki_lab.query.evaluation_cache import Examination

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
