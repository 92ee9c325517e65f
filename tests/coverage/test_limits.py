"""Every limit that the inventory states is broken here and refused with a code, or what it permits is shown to hold."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from nki_lab import codes
from nki_lab.isa.spec import TABLE
from tests.coverage.inventory import inventory
from tests.coverage.snippets import Entry, complaints, entries

STATED = {(item["qualname"], text) for item in inventory()["items"] for text in item["constraints"]}


def tried() -> list[object]:
    """The entries that have something to try, named by item and place."""
    seen: Counter[str] = Counter()
    out = []
    for entry in entries():
        short = entry.item.removeprefix("nki.").removeprefix("isa.").removeprefix("language.")
        seen[short] += 1
        if entry.violation or entry.holds:
            out.append(pytest.param(entry, id=f"{short}-{seen[short]}-{entry.code or 'holds'}"))
    return out


@pytest.mark.parametrize("entry", tried())
def test_it_is_as_the_inventory_says(entry: Entry) -> None:
    assert not complaints(entry), entry.text


def test_every_stated_limit_has_an_entry_and_nothing_else_does() -> None:
    assert {(entry.item, entry.text) for entry in entries()} == STATED


def test_entries_say_one_thing_each() -> None:
    for entry in entries():
        given = [bool(entry.code), bool(entry.holds), bool(entry.reason)]
        assert sum(given) == 1, entry
        assert bool(entry.violation) <= bool(entry.code), entry
        assert not entry.code or codes.get(entry.code), entry


def test_a_limit_without_a_violation_is_one_that_its_declaration_states() -> None:
    """Those are broken, on every target, by `tests/isa/test_contract.py`."""
    stated: dict[tuple[str, str], set[str]] = defaultdict(set)
    for entry in entries():
        if entry.code and not entry.violation:
            stated[entry.item.removeprefix("nki.isa."), entry.code].add(entry.text)
    for (name, code), texts in stated.items():
        declared = [item for item in (*TABLE[name].limits, *TABLE[name].predicates) if item.code == code]
        assert len(texts) <= len(declared), (name, code)


def test_nine_of_ten_limits_are_tried() -> None:
    reasons = {(entry.item, entry.text) for entry in entries() if entry.reason}
    assert len(reasons) <= len(STATED) / 10
    assert all(len(entry.reason) > 20 for entry in entries() if entry.reason)
