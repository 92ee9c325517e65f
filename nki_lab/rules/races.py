"""NKI407 to NKI411 and NKI422: races between the cores of a launch, and instructions that overlap themselves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.race import races
from nki_lab.rules.program_facts import ProgramFacts
from nki_lab.rules.rule import program_rule


def check(code: str, facts: ProgramFacts) -> list[Diagnostic]:
    """Yield one finding for each place of the source."""
    return facts.once(_races).get(code, [])


def _races(facts: ProgramFacts) -> dict[str, list[Diagnostic]]:
    """Return the findings of `race` by code; none about cores whose kernel is not in the program as a whole."""
    known = facts.complete and not facts.doubtful
    found: dict[str, list[Diagnostic]] = {}
    for item in races(facts.program, allocation=facts.known_allocation, path=facts.path, complete=known):
        found.setdefault(item.code, []).append(item)
    return found


def without_consequences(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the findings but for reads of what nothing has written yet, wholly (NKI301) or in part (NKI302), that are
    races: the other core writes it.
    """
    items = list(found)
    raced = {(item.file, item.line) for item in items if item.code == "NKI407"}
    return [item for item in items if item.code not in ("NKI301", "NKI302") or (item.file, item.line) not in raced]


RULES: Final = {
    code: program_rule(code)(partial(check, code))
    for code in ("NKI407", "NKI408", "NKI409", "NKI410", "NKI411", "NKI422")
}
