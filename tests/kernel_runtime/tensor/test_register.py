"""Registers have no value in Python."""

from __future__ import annotations

import operator

import pytest

from nki_lab.kernel_runtime.tensor import VirtualRegister

OPERATIONS = [
    bool,
    int,
    float,
    operator.index,
    range,
    abs,
    round,
    operator.neg,
    operator.invert,
    lambda r: r + 1,
    lambda r: 1 + r,
    lambda r: r - 1,
    lambda r: 2 * r,
    lambda r: r / 2,
    lambda r: r // 2,
    lambda r: r % 2,
    lambda r: divmod(r, 2),
    lambda r: r**2,
    lambda r: r << 1,
    lambda r: 1 >> r,
    lambda r: r & 1,
    lambda r: r | 1,
    lambda r: r ^ 1,
    lambda r: r < 1,
    lambda r: r >= 1,
    lambda r: r == 0,
    lambda r: r != 0,
    lambda r: [1, 2][r],
    lambda r: [1, 2][:r],
    lambda r: r in [1, 2],
    lambda r: not r,
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_register_has_no_value_in_python(operation, frozen, refused) -> None:
    register = VirtualRegister(id=4, frozen=frozen, name="i")
    found = refused("NKI017", lambda: operation(register))
    assert ("loop variable" if frozen else "register") in found.message
    with pytest.raises(TypeError):
        operation(register)


def test_registers_are_told_apart_by_identity() -> None:
    one, two = VirtualRegister(id=1), VirtualRegister(id=1)
    assert one == one
    assert one != two
    assert len({one, two}) == 2
    assert one in [two, one]
    assert one != None  # noqa: E711 - kernels write it
    assert (one == "none") is False


def test_a_register_says_what_it_is() -> None:
    assert repr(VirtualRegister(id=3)) == "<register 3>"
    assert repr(VirtualRegister(id=3, frozen=True, name="i")) == "<loop variable i>"
    assert VirtualRegister(5, True).state == 5
