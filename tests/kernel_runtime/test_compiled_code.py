"""When a function becomes machine code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from nki_lab.kernel_runtime import compiled_code
from nki_lab.kernel_runtime.compiled_code import CompiledFunction, WhenWorthwhile


def plain(number: int) -> int:
    return number


class Clock:
    """A clock that tests move on."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def spend(monkeypatch: pytest.MonkeyPatch) -> Callable[[WhenWorthwhile, float], None]:
    """Spend seconds on what a function replaces, in a process where numba is installed and not imported."""
    clock = Clock()
    monkeypatch.setattr(compiled_code, "time", clock)
    monkeypatch.setattr(compiled_code, "unavailable", lambda: "")
    monkeypatch.delitem(sys.modules, "numba", raising=False)

    def made(self: CompiledFunction) -> Any:
        self._made = plain
        return plain

    monkeypatch.setattr(CompiledFunction, "get", made)

    def spend(late: WhenWorthwhile, seconds: float) -> None:
        with late.replaced():
            clock.now += seconds

    return spend


def test_a_function_is_compiled_when_as_much_time_was_spent_without_it(
    spend: Callable[[WhenWorthwhile, float], None],
) -> None:
    late = WhenWorthwhile(CompiledFunction(plain))
    price = compiled_code._LOAD + compiled_code._COMPILE
    for _ in range(4):
        assert late.get() is None
        spend(late, price / 4.01)
    assert late.get() is None
    spend(late, price / 50)
    assert late.get() is plain


def test_what_another_program_made_is_used_at_once(spend: Callable[[WhenWorthwhile, float], None]) -> None:
    function = CompiledFunction(plain)
    late = WhenWorthwhile(function)
    function.get()
    assert late.get() is plain


def test_nothing_is_asked_of_numba_while_little_was_spent(
    spend: Callable[[WhenWorthwhile, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_code, "unavailable", lambda: pytest.fail("asked"))
    late = WhenWorthwhile(CompiledFunction(plain))
    spend(late, compiled_code._READ / 2)
    assert late.get() is None


def test_without_numba_it_is_asked_for_once(
    spend: Callable[[WhenWorthwhile, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(compiled_code, "unavailable", lambda: str(asked.append(1)))
    late = WhenWorthwhile(CompiledFunction(plain))
    for _ in range(3):
        spend(late, 10.0)
        assert late.get() is None
    assert asked == [1]
