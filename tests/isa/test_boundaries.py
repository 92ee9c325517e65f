"""Legal calls compute what the references do, calls with one thing wrong are refused, on every target."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Instruction
from tests.calls import execute
from tests.expected import differences, objections
from tests.illegal import ATTACKS, Attack
from tests.strategies import arches, barely_illegal_call, instructions_of, legal_call


def everything() -> list[Any]:
    """Each instruction on each generation that has it."""
    return [
        pytest.param(instruction, arch, id=f"{instruction.name}-{arch.name}")
        for arch in arches()
        for instruction in instructions_of(arch)
    ]


@pytest.mark.parametrize(("instruction", "arch"), everything())
def test_legal_calls_give_what_the_reference_gives(instruction: Instruction, arch: Arch) -> None:
    @settings(max_examples=20)
    @given(legal_call(instruction, arch), st.booleans())
    def holds(case: Any, final: bool) -> None:
        assert not differences(case, execute(case, final=final))

    holds()


@pytest.mark.parametrize(("instruction", "arch"), everything())
def test_calls_with_one_thing_wrong_are_refused_at_that_thing(instruction: Instruction, arch: Arch) -> None:
    @settings(max_examples=20)
    @given(barely_illegal_call(instruction, arch))
    def holds(illegal: Any) -> None:
        assert not objections(illegal)

    holds()


@pytest.mark.parametrize("change", ATTACKS, ids=[change.__name__ for change in ATTACKS])
def test_each_kind_of_change_applies_to_some_instruction(change: Any) -> None:
    from tests.draws import Seeded
    from tests.legal import draw_legal

    found = 0
    for arch in arches():
        for instruction in instructions_of(arch):
            choice = Seeded(len(change.__name__))
            case = draw_legal(choice, instruction, arch)
            illegal = change(Attack(choice, instruction, case, arch))
            if illegal is not None:
                found += 1
                assert not objections(illegal)
    assert found
