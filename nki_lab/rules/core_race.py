"""NKI407: one core reads what the other writes, in no order."""

from __future__ import annotations

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.program_facts import ProgramFacts, ProgramRule
from nki_lab.rules.racing import races_of


def check(facts: ProgramFacts) -> list[Diagnostic]:
    """One finding for each place of the source."""
    return facts.once(races_of).get("NKI407", [])


RULE = ProgramRule(code="NKI407", check=check)
