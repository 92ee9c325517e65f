"""NKI411: a transfer writes bytes more than once."""

from __future__ import annotations

from nki_lab.diagnostic import Diagnostic
from nki_lab.rules.program_facts import ProgramFacts, ProgramRule
from nki_lab.rules.racing import races_of


def check(facts: ProgramFacts) -> list[Diagnostic]:
    """One finding for each place of the source."""
    return facts.once(races_of).get("NKI411", [])


RULE = ProgramRule(code="NKI411", check=check)
