"""The accumulation registers of the Vector and Scalar Engines, which several instructions use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.spec import Arrays, Fault, Predicate, Use

Lanes = NDArray[np.float32]
Number = TypeVar("Number", bound=np.generic)


def commanded(*names: str, refuses: Mapping[str, Any] | None = None) -> Predicate:
    """Limit: `reduce_cmd` is one of some commands; `refuses` are other arguments of the refused case."""

    def test(use: Use) -> Fault:
        command = use.attrs["reduce_cmd"]
        return None if command.name in names else f"reduce_cmd.{command.name} is not a command of {use.name}"

    other = next(command for command in reduce_cmd if command.name not in names)
    return Predicate(
        "NKI012",
        f"reduce_cmd is {', '.join(names[:-1])} or {names[-1]}",
        test,
        operand="reduce_cmd",
        help="use one of these commands",
        accepts={"reduce_cmd": reduce_cmd[names[0]]},
        refuses={**(refuses or {}), "reduce_cmd": other},
    )


def commands_registers(use: Use) -> bool:
    """Check whether a call changes the accumulation registers."""
    return use.attrs["reduce_cmd"] is not reduce_cmd.idle


def initial_given(operand: str, neutral: float | None = None) -> Predicate:
    """Limit: a start value is given with load_reduce and only then; `neutral` is the number without effect."""

    def test(use: Use) -> Fault:
        given = use.value(operand) not in (None, neutral)
        loads = use.attrs["reduce_cmd"] is reduce_cmd.load_reduce
        if given and not loads:
            return f"{operand} is given and reduce_cmd.{use.attrs['reduce_cmd'].name} does not load it"
        if loads and not given and neutral is None:
            return f"reduce_cmd.load_reduce starts from {operand}, which is missing"
        return None

    when = "load_reduce, and only then" if neutral is None else "load_reduce only"
    instead = f" and {operand}, or neither" if neutral is None else ", or leave it out"
    return Predicate(
        "NKI218",
        f"{operand} comes with {when}",
        test,
        operand=operand,
        help=f"give reduce_cmd=nisa.reduce_cmd.load_reduce{instead}",
        accepts={operand: 1.0, "reduce_cmd": reduce_cmd.load_reduce},
        refuses={operand: 1.0},
    )


def lanes_of(registers: NDArray[Number], use: Use, operand: str) -> NDArray[Number]:
    """Return the registers of the partitions of an operand, as a view."""
    view = use.types[operand]
    return registers[view.start_partition : view.start_partition + view.shape[0]]


def started(registers: Lanes, command: reduce_cmd, identity: Any, initial: ArrayLike = 0) -> Lanes:
    """Return the start of a reduction: (P,) in the precision of the registers, apart from them."""
    first = registers.copy()
    if command in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        first[...] = identity
    elif command is reduce_cmd.load_reduce:
        first[...] = np.asarray(initial, first.dtype).reshape(-1)
    return first


def write_out(registers: Lanes, out: Arrays) -> None:
    """Write the registers to reduce_res where a call gives it."""
    if out.reduce_res is not None:
        out.reduce_res[...] = registers.reshape(out.reduce_res.shape)


def summed(results: Lanes) -> Lanes:
    """Return the sum of each partition's results."""
    total: Lanes = results.sum(axis=tuple(range(1, results.ndim)), dtype=results.dtype)
    return total
