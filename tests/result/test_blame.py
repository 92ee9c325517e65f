"""Numeric blame: it finds what was planted, and nothing in kernels that keep their precision."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.result import Run
from nki_lab.result.tensors import Instruction
from tests.result.precision_kernels import SUBJECTS, Subject

NAMED = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


def run_of(subject: Subject, low: Any, seed: int = 3) -> Run:
    arguments = subject.arguments(np.random.default_rng(seed))
    return nki_lab.run(subject.kernel, *arguments, low, target="trn2", **subject.keywords)


def source_line(instruction: Instruction) -> str:
    return linecache.getline(instruction.file, instruction.line)


@NAMED
def test_the_planted_instruction_is_blamed(subject: Subject) -> None:
    run = run_of(subject, subject.coarse)
    blame = run.blame()
    assert blame
    assert "# planted" in source_line(blame.instruction), str(blame)
    assert blame.blamed is not None
    assert blame.blamed.introduced > blame.tolerance
    # The path leads from it to a result. Its last error is of the rows that one instruction writes, not of whole rows.
    assert blame.path[0].instruction == blame.instruction
    (out,) = run.program.outputs
    assert blame.path[-1].tensor == run._tensors.labels[out._buffer.id]
    assert blame.path[-1].error == pytest.approx(max(item.error for item in blame.outputs), rel=0.3)
    assert blame.total[blame.step] == pytest.approx(blame.path[0].error)
    assert blame.introduced[blame.step] == pytest.approx(blame.blamed.introduced)
    assert str(blame.instruction) in str(blame)


@NAMED
@pytest.mark.parametrize("seed", [3, 4])
def test_nothing_is_blamed_where_nothing_was_planted(subject: Subject, seed: int) -> None:
    blame = run_of(subject, subject.fine, seed).blame()
    assert not blame, str(blame)
    assert blame.complete
    assert blame.path == ()
    assert not np.isnan(blame.introduced).any()
    assert max(item.error for item in blame.outputs) < 4 * blame.tolerance
