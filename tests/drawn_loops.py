"""Kernels of nested device loops, drawn; and what they compute, worked out in Python alone.

A kernel adds small integers to cells of one row: `row[at] += amount` where `at` is a number or the variable of a loop.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics.executor import Executor
from tests.calls import traced
from tests.verdicts import SNIPPET_HEAD, loaded

WIDTH = 16
_numbers = count()


@dataclass
class Add:
    """row[at] += amount; `at` a cell, or how many loops around to take the variable of (1: the innermost)."""

    at: int
    amount: int
    outwards: int = 0


@dataclass
class Loop:
    """A loop; `how` is "range" (dynamic_range), "fori", "while" (of `upper` passes) or "static".

    Bounds in `loaded` come from data, the others are constants.
    """

    how: str
    lower: int
    upper: int
    step: int
    loaded: frozenset[str]
    body: list[Add | Loop] = field(default_factory=list)


def draw_body(integer: Callable[[int, int], int], depth: int = 0) -> list[Add | Loop]:
    """A few additions and loops."""
    body: list[Add | Loop] = []
    for _ in range(integer(1, 3)):
        if depth < 3 and integer(0, 9) < (6 if depth < 2 else 2):
            how = ("range", "fori", "while", "static")[integer(0, 3)]
            lower, upper = integer(0, 3), integer(0, 6)
            if how == "while":
                lower, upper = 0, integer(0, 3)
            loaded = frozenset(name for name in ("lower", "upper") if integer(0, 1) and how in ("range", "fori"))
            body.append(Loop(how, lower, upper, integer(1, 3), loaded, draw_body(integer, depth + 1)))
        else:
            body.append(Add(integer(0, WIDTH - 1), integer(1, 5), integer(0, depth)))
    return body


def expected(body: list[Add | Loop]) -> tuple[np.ndarray[Any, Any], int]:
    """The row, and how often a device loop was entered."""
    row = np.zeros(WIDTH, np.int64)
    entered = 0

    def walk(part: list[Add | Loop], variables: list[int | None]) -> None:
        nonlocal entered
        for item in part:
            if isinstance(item, Add):
                variable = variables[-item.outwards] if 0 < item.outwards <= len(variables) else None
                row[item.at if variable is None else variable] += item.amount
                continue
            entered += item.how != "static"
            values = range(item.upper) if item.how == "while" else range(item.lower, item.upper, item.step)
            for value in values:
                walk(item.body, [*variables, None if item.how == "while" else value])

    walk(body, [])
    return row, entered


def source(body: list[Add | Loop]) -> tuple[str, list[int]]:
    """The kernel, and the numbers that it loads."""
    lines: list[str] = []
    numbers: list[int] = []
    names = count()

    def bound(item: Loop, which: str, pad: str) -> str:
        value = item.lower if which == "lower" else item.upper
        if which not in item.loaded:
            return str(value)
        name = f"b{next(names)}"
        numbers.append(value)
        lines.append(f"{pad}{name} = nisa.register_alloc()")
        lines.append(f"{pad}nisa.register_load({name}, given[0:1, {len(numbers) - 1}:{len(numbers)}])")
        return name

    def write(part: list[Add | Loop], pad: str, variables: list[tuple[str, bool]]) -> None:
        for item in part:
            if isinstance(item, Add):
                name, dynamic = variables[-item.outwards] if 0 < item.outwards <= len(variables) else ("", False)
                place = f"nl.ds({name}, 1)" if name and dynamic else f"{name or item.at}"
                cell = f"row[:, {place}]"
                lines.append(f"{pad}nisa.tensor_scalar(dst={cell}, data={cell}, op0=nl.add, operand0={item.amount})")
                continue
            name = f"i{next(names)}"
            if item.how == "while":
                lines.append(f"{pad}{name} = nisa.register_alloc({item.upper})")
                lines.append(f"{pad}while {name}:")
                left = f"left{next(names)}"
                write(item.body, pad + "    ", [*variables, ("", False)])
                lines.append(f"{pad}    {left} = nl.ndarray((1, 1), dtype=nl.int32)")
                lines.append(f"{pad}    nisa.register_store(dst={left}, src={name})")
                lines.append(f"{pad}    nisa.tensor_scalar(dst={left}, data={left}, op0=nl.subtract, operand0=1)")
                lines.append(f"{pad}    nisa.register_load({name}, {left})")
                continue
            lower, upper = bound(item, "lower", pad), bound(item, "upper", pad)
            if item.how == "fori":
                lines.append(f"{pad}def body_{name}({name}):")
            else:
                kind = "nl.dynamic_range" if item.how == "range" else "range"
                lines.append(f"{pad}for {name} in {kind}({lower}, {upper}, {item.step}):")
            write(item.body, pad + "    ", [*variables, (name, item.how != "static")])
            if item.how == "fori":
                lines.append(f"{pad}nl.fori_loop({lower}, {upper}, body_{name}, {item.step})")

    write(body, "", [])
    head = f"row = nl.zeros((1, {WIDTH}), dtype=nl.int32)\ngiven = nl.load(numbers)\n"
    tail = f"\nout = nl.ndarray((1, {WIDTH}), dtype=nl.int32, buffer=nl.shared_hbm)\nnl.store(out, row)\nreturn out\n"
    text = textwrap.indent(head + "\n".join(lines) + tail, "    ")
    return f"{SNIPPET_HEAD}\ndef kernel(numbers):\n{text}", numbers or [0]


def traced_loops(body: list[Add | Loop]) -> tuple[Program, np.ndarray[Any, Any], str, Path]:
    """The program of a drawn kernel, its argument, its text and the file that it is shown as."""
    text, numbers = source(body)
    file = Path(f"drawn_loops_{next(_numbers)}.py")
    given = np.array([numbers], np.int32)
    program, _ = traced(loaded(file, text).kernel, [given], ["int32"], "trn2")
    return program, given, text, file


def machine_of(program: Program, given: np.ndarray[Any, Any], **how: Any) -> Executor:
    """The program, executed."""
    machine = Executor(program, {0: given})
    machine.run(final=how.get("final", True))
    return machine
