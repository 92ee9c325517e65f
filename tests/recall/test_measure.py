"""Faults of 22 kinds are found where nothing is evaluated, and no file of the repository has an error by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab.query.checking import Document
from tests.recall.measure import Score, Source, errors_of, faults, is_found, measure, syntax_findings
from tests.recall.mutations import KINDS

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples" / "kernels").glob("*.py")), *sorted((ROOT / "tests" / "production").glob("*.py"))]
FLOOR = 0.98
BY_VALUE = ("buffer", "dtype", "size", "partitions")  # not all of these are certain from the text alone
FLOOR_BY_VALUE = 0.6


@pytest.fixture(scope="module")
def score() -> Score:
    return measure(FILES, 1, ["syntax"])


def test_there_are_faults_of_every_kind(score: Score) -> None:
    assert len(KINDS) >= 22
    assert {kind for kind in KINDS if not score.seeded[kind]} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_most_faults_of_a_kind_are_found_without_shapes(score: Score, kind: str) -> None:
    missed = [line for line in score.missed if f"missed {kind}," in line]
    assert score.share([kind]) >= (FLOOR_BY_VALUE if kind in BY_VALUE else FLOOR), "\n".join(missed)


def test_files_without_a_fault_have_no_error(score: Score) -> None:
    assert score.errors == []


def test_every_call_is_bound_by_name(score: Score) -> None:
    assert score.calls["skipped"] <= 0.05 * sum(score.calls.values()), score.coverage()


def test_an_error_that_was_there_before_does_not_count() -> None:
    text = FILES[0].read_text(encoding="utf-8")
    fault = next(faults(Source(text), 1))
    found = errors_of(syntax_findings(fault.text, "k.py"))
    assert is_found(fault, [], found)
    assert not is_found(fault, found, found)


def test_half_typed_files_stay_quiet() -> None:
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        for part in range(2, 9):
            typed = text[: len(text) * part // 9]
            errors = errors_of(Document(str(file)).update(typed))
            assert len(errors) <= 6, f"{file.name}, {len(typed)} characters: {errors}"
