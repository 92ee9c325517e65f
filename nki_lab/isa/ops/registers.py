"""The accumulation registers of the Vector and Scalar Engines, as several instructions use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.isa import enums
from nki_lab.isa.spec import Use


def commanded(*names: str) -> Callable[[Use], str | None]:
    """Test: `reduce_cmd` is one of some commands."""

    def test(use: Use) -> str | None:
        command = use.attrs["reduce_cmd"]
        if command.name in names:
            return None
        return f"reduce_cmd.{command.name} is not a command of {use.instruction.name}"

    return test


def initial_given(operand: str, neutral: float | None = None) -> Callable[[Use], str | None]:
    """Test: a start value is given with load_reduce and only then; `neutral` is the number that says nothing."""

    def test(use: Use) -> str | None:
        number = use.attrs.get(operand)
        given = use.types.get(operand) is not None or (number is not None and number != neutral)
        loads = use.attrs["reduce_cmd"] is enums.reduce_cmd.load_reduce
        if given and not loads:
            return f"{operand} is given and reduce_cmd.{use.attrs['reduce_cmd'].name} does not load it"
        if loads and not given and neutral is None:
            return f"reduce_cmd.load_reduce starts from {operand}, which is missing"
        return None

    return test


def lanes_of(registers: Any, use: Use, operand: str) -> Any:
    """The registers of the partitions of an operand."""
    view: Any = use.types[operand]
    return registers[view.start_partition : view.start_partition + view.shape[0]]


def started(registers: Any, command: enums.reduce_cmd, identity: Any, initial: Any) -> Any:
    """What a reduction starts from: (P,) float32, apart from the registers."""
    first = registers.copy()
    if command in (enums.reduce_cmd.reset, enums.reduce_cmd.reset_reduce):
        first[...] = identity
    elif command is enums.reduce_cmd.load_reduce:
        first[...] = np.asarray(initial, np.float32).reshape(-1)
    return first


def commands_registers(use: Use) -> bool:
    """Whether a call leaves something in the accumulation registers."""
    return use.attrs["reduce_cmd"] is not enums.reduce_cmd.idle
