"""Hypothesis strategies: legal calls of the declared instructions, and calls with one thing wrong.

`draw_legal` and `draw_illegal` are the same over any `Choice`, for the fuzzer. Every instruction of the table that
`legal.DRAWS` knows is drawn on every target that has it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import nki_lab.isa.ops  # noqa: F401 - fills the table
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.spec import TABLE, Instruction
from tests.calls import Case
from tests.draws import Choice, Drawn
from tests.illegal import Illegal, draw_change
from tests.legal import DRAWS, draw_legal

TARGETS = ("trn1", "trn2", "trn3")


def arches() -> list[Arch]:
    """One target of each generation."""
    return [arch_of(target) for target in TARGETS]


def instructions_of(arch: Arch) -> list[Instruction]:
    """The declared instructions that the target has and that can be drawn."""
    return [
        item for item in TABLE.values()
        if item.name in DRAWS and item.since <= arch.generation <= (item.until or arch.generation)
    ]  # fmt: skip


def draw_illegal(choice: Choice, instruction: Instruction, arch: Arch) -> Illegal:
    """A legal call with one thing wrong."""
    return draw_change(choice, instruction, draw_legal(choice, instruction, arch), arch)


@st.composite
def legal_call(draw: Any, instruction: Instruction, arch: Arch) -> Case:
    """A kernel whose last instruction is a legal call of `instruction` on the target."""
    return draw_legal(Drawn(lambda low, high: draw(st.integers(low, high))), instruction, arch)


@st.composite
def barely_illegal_call(draw: Any, instruction: Instruction, arch: Arch) -> Illegal:
    """A kernel whose only instruction is a call of `instruction` with one thing wrong."""
    return draw_illegal(Drawn(lambda low, high: draw(st.integers(low, high))), instruction, arch)


__all__ = ["arches", "barely_illegal_call", "draw_illegal", "draw_legal", "instructions_of", "legal_call"]
