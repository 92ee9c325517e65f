"""Nested comprehensions and blocks that Python's compiler does not survive are not handed to it.

Since Python 3.12 a comprehension is a block of the function around it, and the compiler writes the handlers of blocks
into a table without looking whether there is room. The sources are checked in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nki_lab import check

ROOT = Path(__file__).parents[2]
BLOCKS = {
    "for": ("for x in y:", ""),
    "with": ("with a, b, c:", ""),
    "async with": ("async with a, b, c:", ""),
    "async for": ("async for x in y:", ""),
    "try": ("try:", "except E: pass\nfinally: pass"),
    "handler": ("try: pass\nexcept E as e:", ""),
    "group": ("try: pass\nexcept* E as e:", ""),
    "finally": ("try: pass\nfinally:", ""),
}
EXPRESSIONS = {
    "list": "[{} for i in r]",
    "dict": "{{i: {} for i in r}}",
    "async": "[{} async for i in r]",
    "condition": "[i for i in r if {}]",
    "iterated": "[i for i in {}]",
    "closure": "[(lambda: i, {}) for i in r]",
    "locals": "[(locals(), __class__, {}) for i in r]",
    "generator": "[*({} for i in r)]",
    "two": "[{} for i in r async for j in i]",
    "builtin over a generator": "any(i for i in all(tuple({} for i in r) for i in r))",
}


def nested(block: str, depth: int, expression: str, count: int) -> str:
    text = "z"
    for _ in range(count):
        text = EXPRESSIONS[expression].format(text)
    first, last = BLOCKS[block]
    lines, ends = ["async def f():"], []
    for level in range(1, depth + 1):
        lines += [" " * level + line for line in first.split("\n")]
        ends += [[" " * level + line for line in last.split("\n") if line]]
    lines.append(f"{' ' * (depth + 1)}q = {text}")
    return "\n".join([*lines, *(line for part in reversed(ends) for line in part), ""])


def survives(sources: list[str]) -> bool:
    code = "import sys, nki_lab\nfor text in sys.stdin.read().split('---'):\n    nki_lab.check(source=text, target='trn2')\nprint('end')"
    done = subprocess.run(
        [sys.executable, "-c", code], input="---".join(sources), env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode == 0 and done.stdout == "end\n"


def test_the_checker_survives_comprehensions_in_handlers() -> None:
    places = [("handler", 10, 5), ("with", 7, 6), ("async with", 1, 19)]
    assert survives([nested(block, depth, "list", count) for block, depth, count in places])


@pytest.mark.slow
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_checker_survives_comprehensions_in_blocks(expression: str) -> None:
    deep = [(1, 19), (3, 17), (7, 6), (7, 13), (10, 10), (15, 5), (0, 20), (0, 60)]
    assert survives([nested(block, depth, expression, count) for block in BLOCKS for depth, count in deep])


def test_ordinary_nesting_is_still_compiled() -> None:
    text = nested("try", 2, "list", 3) + "return 1\n"
    assert [item.code for item in check(source=text)] == ["NKI101"]


def test_functions_begin_anew() -> None:
    text = f"def f():\n    return {'lambda: ' * 12}{'[' * 12}z{' for i in r]' * 12}\nreturn 1\n"
    assert [item.code for item in check(source=text)] == ["NKI101"]
