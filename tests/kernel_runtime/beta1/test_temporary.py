"""The bytecode of an assignment tells whether its value was computed there."""

from __future__ import annotations

from typing import Any

import pytest

from nki_lab.kernel_runtime.beta1.bytecode import at_user_code, is_temporary


class Probe:
    """Records the answer at each store or in-place addition."""

    def __init__(self) -> None:
        self.answers: list[bool] = []
        self.probe = self
        self.items = [1]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.answers.append(ask())

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iadd__(self, other: Any) -> Any:
        self.answers.append(ask())
        return self


def ask() -> bool:
    """The answer for the frame that ran the statement: the probe's own methods count as ours."""
    from nki_lab.kernel_runtime.issue import source_location

    own = (Probe.__setitem__.__code__, Probe.__iadd__.__code__, ask.__code__)
    source_location._ours |= {id(code): (True, code) for code in own}
    return at_user_code(is_temporary)


def make() -> int:
    return 1


def computed(x: Any, y: Any, n: int, things: list[int]) -> None:
    x[...] = make()
    x[1, n : n + 2] = make() + n
    x[things[0], make()] = -y
    x[n:3] = y < 2
    x.probe[make(), ...] = make()
    x += make()
    x += y * 2


def named(x: Any, y: Any, n: int, things: list[int]) -> None:
    value = make()
    x[...] = value
    x[n + 1, 0:n] = y
    x[0] = things[0]
    x[n:3] = x.answers
    x[make(), n] = value
    z = x[...] = make()
    x += y
    x += things[0]


@pytest.mark.parametrize(("function", "answer"), [(computed, True), (named, False)])
def test_values_of_calls_and_operators_are_temporary(function: Any, answer: bool) -> None:
    probe = Probe()
    function(probe, 3, 1, [0])
    assert len(probe.answers) >= 7
    assert set(probe.answers) == {answer}


def test_outside_of_an_assignment_nothing_is_temporary() -> None:
    assert at_user_code(is_temporary) is False
