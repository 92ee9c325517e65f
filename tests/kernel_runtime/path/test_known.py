"""Which loops have a known number of passes, and what is said about the others."""

from __future__ import annotations

import textwrap
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.path import Path as Way
from nki_lab.kernel_runtime.path import check_trip_counts, known_path
from tests.calls import traced
from tests.verdicts import SNIPPET_HEAD, loaded

_numbers = count()


def program_of(text: str) -> Program:
    """The program of a kernel body."""
    module = loaded(
        Path(f"known_{next(_numbers)}.py"), f"{SNIPPET_HEAD}\ndef kernel(x):\n{textwrap.indent(text, '    ')}"
    )
    program, _ = traced(module.kernel, [np.zeros((4, 8), np.int32)], ["int32"], "trn2", max_instructions=5000)
    return program


def trips(text: str, **trip_counts: int) -> list[int] | list[str]:
    """The passes of the loops as they are entered, or the codes of what is not known."""
    found = known_path(program_of(text), trip_counts)
    return found.trips.tolist() if isinstance(found, Way) else [item.code for item in found]


FILL = "    nisa.memset(dst=nl.ndarray((1, 1), dtype=nl.int32), value=1)\n"
LOADED = "n = nisa.register_alloc()\nnisa.register_load(n, nl.load(x[0:1, 0:1]))\n"


@pytest.mark.parametrize(
    ("bounds", "passes"),
    [("4", 4), ("1, 4", 3), ("1, 8, 3", 3), ("4, 1", 0), ("0, 0", 0), ("-2, 2", 4), ("-5", 0)],
)
def test_constants_are_known(bounds: str, passes: int) -> None:
    assert trips(f"for i in nl.dynamic_range({bounds}):\n{FILL}") == [passes]


def test_constants_in_registers_are_known() -> None:
    assert trips(f"a = nisa.register_alloc(1)\nb = nisa.register_alloc(0)\nnisa.register_move(b, 6)\n"
                 f"nisa.register_move(a, a)\nfor i in nl.dynamic_range(a, b, 2):\n{FILL}") == [3]  # fmt: skip


def test_a_loop_over_the_variable_of_another_is_known() -> None:
    inner = FILL.replace("    ", "        ", 1)
    assert trips(f"for i in nl.dynamic_range(3):\n    for k in nl.dynamic_range(i):\n{inner}") == [3, 0, 1, 2]


def test_a_while_that_moves_a_constant_is_known() -> None:
    assert trips("r = nisa.register_alloc(5)\nwhile r:\n    nisa.register_move(r, 0)\n") == [1]
    assert trips("r = nisa.register_alloc(0)\nwhile r:\n    nisa.register_move(r, 1)\n") == [0]


def test_loaded_bounds_are_not_known() -> None:
    assert trips(f"{LOADED}for i in nl.dynamic_range(n):\n{FILL}") == ["NKI801"]
    assert trips(f"{LOADED}while n:\n    nisa.register_load(n, x[0:1, 1:2])\n") == ["NKI801"]


def test_every_unknown_loop_is_named_once_also_inside_others() -> None:
    inner = FILL.replace("    ", "        ", 1)
    text = f"{LOADED}for i in nl.dynamic_range(n):\n    for k in nl.dynamic_range(n):\n{inner}for m in nl.dynamic_range(n):\n{FILL}"
    assert trips(text) == ["NKI801"] * 3
    found = known_path(program_of(text))
    assert isinstance(found, tuple)
    assert [item.severity for item in found] == ["information"] * 3
    assert ["'i'" in found[0].help, "'k'" in found[1].help, "'m'" in found[2].help] == [True] * 3


@pytest.mark.parametrize("name", ["i", "16"])
def test_the_user_gives_passes_by_variable_or_line(name: str) -> None:
    text = f"{LOADED}for i in nl.dynamic_range(n):\n{FILL}"
    (unknown,) = known_path(program_of(text))  # type: ignore[misc]
    assert trips(text, **{name if name == "i" else str(unknown.line): 3}) == [3]


def test_the_user_gives_passes_by_the_body_s_name() -> None:
    text = f"{LOADED}def step(i):\n{FILL}nl.fori_loop(1, n, step)\n"
    assert trips(text, step=4) == trips(text, i=4) == [4]


def test_what_is_known_needs_no_count() -> None:
    assert trips(f"for i in nl.dynamic_range(2):\n{FILL}", i=9) == [2]


def test_a_variable_that_starts_from_a_constant_is_known_in_each_pass() -> None:
    inner = FILL.replace("    ", "        ", 1)
    assert trips(f"{LOADED}for i in nl.dynamic_range(1, n):\n    for k in nl.dynamic_range(i):\n{inner}", i=3) == [
        3,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(
    "body",
    [
        "r = nisa.register_alloc(1)\nwhile r:\n    pass\n",
        f"r = nisa.register_alloc(1)\nwhile r:\n{FILL}",
        "r = nisa.register_alloc(1)\nq = nisa.register_alloc(2)\nwhile r:\n    nisa.register_move(r, q)\n",
        f"for i in nl.dynamic_range(10**9):\n{FILL}",
    ],
)
def test_a_loop_that_does_not_end_is_said_to_be_endless(body: str) -> None:
    assert trips(body) == ["NKI011"]


def refused(trip_counts: dict[str | int, object]) -> str:
    program = program_of(f"{LOADED}for row in nl.dynamic_range(n):\n{FILL}")
    with pytest.raises(NkiError) as caught:
        check_trip_counts(program, trip_counts)
    assert caught.value.diagnostics[0].code == "NKI012"
    return str(caught.value)


@pytest.mark.parametrize("count", [-1, 1.5, "3", True, None])
def test_a_count_is_a_whole_number(count: object) -> None:
    assert f"the trip count of row is {count!r}" in refused({"row": count})


def test_a_name_that_no_loop_has_is_refused_with_those_there_are() -> None:
    assert "did you mean row" in refused({"roww": 3})
    assert "loops by line or name: " in refused({9: 3})


def test_a_program_without_loops_takes_no_counts() -> None:
    with pytest.raises(NkiError, match="has no device loops"):
        check_trip_counts(program_of(FILL.strip() + "\n"), {"i": 3})
