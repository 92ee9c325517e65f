"""Findings that are told while kernels are evaluated: of the final ones, as soon as they are sure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, configuration_of

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
"""
LONG = """
    for i in range(500):
        nisa.memset(dst=tile, value=0.0)
"""


def kernel(name: str, *body: str, parameter: str = "x: nt.tensor[128, 64]") -> str:
    """A kernel that is evaluated for a while after the lines of its body."""
    lines = "".join(f"    {line}\n" for line in body)
    return f"\n@nki.jit\ndef {name}({parameter}):\n    tile = nl.load(x)\n{lines}{LONG}    return x\n"


def told(*parts: str) -> tuple[list[list[Diagnostic]], tuple[Diagnostic, ...]]:
    """What a text's evaluation tells, each time, and in the end."""
    document, times = Document("k.py"), []

    def early(found: Iterable[Diagnostic]) -> None:
        times.append(list(found))

    document.update(HEAD + "".join(parts))
    final = document.examine(EvaluationRequest(arch=arch_of("trn2"), early=early)).findings
    return times, final


WRONG = "nisa.tensor_copy(dst=tile, src=x)"


def test_a_fault_is_told_long_before_the_end() -> None:
    times, final = told(kernel("k", WRONG))
    assert len(times) > 10
    assert [item.code for item in times[0]] == ["NKI201"]
    assert times[0][0] in final


def test_what_is_told_early_stands_in_the_end_with_the_same_words() -> None:
    first = kernel("first", WRONG, "lambda: 0", "nisa.tensor_copy(dst=tile, src=tile[:, 0:3])  # noqa")
    second = kernel("second", "if True:", "    nisa.memset(dst=tile[:, 0:99], value=0)")
    times, final = told(first, second)
    assert {item.code for item in times[-1]} >= {"NKI201", "NKI104"}
    for found in times:
        assert set(found) <= set(final)
    assert all(len(one) <= len(next_one) for one, next_one in pairwise(times))
    assert any(item.line > first.count("\n") + 5 for item in times[-1])  # of the second kernel


@pytest.mark.parametrize("call", ["", "def test(x):\n    k(x)\n"])
def test_what_is_wrong_for_assumed_arguments_is_not_told_before_it_is_sure(call: str) -> None:
    times, final = told(kernel("k", WRONG, parameter="x"), call)
    assert {item.code for found in times for item in found} == set()
    assert final


def test_under_several_signatures_the_first_one_s_words_stay() -> None:
    calls = "def test():\n    k(np.zeros((128, 64)))\n    k(np.zeros((128, 32)))\n    k(np.zeros((64, 64)))\n"
    times, final = told("import numpy as np\n", kernel("k", WRONG, parameter="x"), calls)
    assert [item.code for item in times[-1]] == ["NKI201"]
    assert all(set(found) <= set(final) for found in times)


def test_of_a_kernel_elsewhere_only_what_it_finds_here_is_told(tmp_path: Path) -> None:
    helper = "\ndef helper(tile):\n    nisa.memset(dst=tile, value=0.0)\n"
    (tmp_path / "helpers.py").write_text(HEAD + helper)
    (tmp_path / "kernels.py").write_text(
        HEAD + "from helpers import helper\n" + kernel("k", WRONG, "for i in range(500):", "    helper(tile)")
    )
    (tmp_path / "pyproject.toml").write_text("[tool.nki-lab]\n")
    file = tmp_path / "helpers.py"
    document, times = Document(str(file)), []
    document.update(file.read_text())
    library = configuration_of(file).library()
    request = EvaluationRequest(arch=arch_of("trn2"), library=library, early=lambda found: times.append(list(found)))
    final = document.examine(request).findings
    assert all(set(found) <= set(final) for found in times)


def test_nothing_changes_for_who_listens() -> None:
    text = HEAD + kernel("k", WRONG) + kernel("other", "nisa.memset(dst=tile[:, 0:99], value=0)")
    document = Document("k.py")
    document.update(text)
    assert document.examine(EvaluationRequest(arch=arch_of("trn2"))).findings == told(text.removeprefix(HEAD))[1]
