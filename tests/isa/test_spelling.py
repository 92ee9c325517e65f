"""Suggestions of near names: how they are written and read, and how many of them one run makes."""

from __future__ import annotations

import pytest

from nki_lab.isa import spelling
from nki_lab.isa.spelling import NearMisses, did_you_mean, meant


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (["other"], ""),
        (["trn1"], "did you mean trn1?"),
        (["trn1", "trn2"], "did you mean trn2 or trn1?"),
        (["trn1", "trn2", "trn3"], "did you mean trn3, trn2 or trn1?"),
    ],
)
def test_several_names_are_a_list(known: list[str], sentence: str) -> None:
    assert did_you_mean("trn4", known) == sentence
    assert sorted(meant(sentence)) == [name for name in known if name != "other"]


def test_another_help_names_nothing() -> None:
    assert meant("check the spelling, or import the name") == []


def test_one_run_compares_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelling, "MOST_COMPARED", 5)
    near = NearMisses()
    assert near.did_you_mean("tile", {"tiel": 1}, {"x": 1}) == "did you mean tiel?"
    assert near.did_you_mean("tile", {"tiel": 1}, {"x": 1}) == "did you mean tiel?"
    assert near.did_you_mean("tile", {"tiel": 1}, {"x": 1}) == ""
