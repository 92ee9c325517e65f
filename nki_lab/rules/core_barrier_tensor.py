"""NKI409: the cores meet over another tensor than the one they share."""

from __future__ import annotations

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.program_facts import ProgramFacts, ProgramRule
from nki_lab.rules.racing import races_of


def check(facts: ProgramFacts) -> list[Diagnostic]:
    """One finding for each place of the source."""
    return facts.once(races_of).get("NKI409", [])


RULE = ProgramRule(code="NKI409", check=check)
