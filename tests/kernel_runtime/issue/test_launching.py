"""What a launch may say, for kernels that run and for kernels that are only read."""

from __future__ import annotations

import pytest

from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.issue import launching


@pytest.mark.parametrize(("target", "most"), [("trn1", 1), ("trn2", 2), ("trn3", 2)])
def test_a_logical_core_has_so_many_physical_ones(target: str, most: int) -> None:
    arch = arch_of(target)
    assert launching.refused("kernel", (), arch) is None
    assert launching.refused("kernel", (most,), arch) is None
    found = launching.refused("kernel", (most + 1,), arch)
    assert found is not None
    assert (found.code, found.message) == ("NKI016", f"kernel[{most + 1}] asks for {most + 1} physical cores")


@pytest.mark.parametrize(("key", "shown"), [("2", "['2']"), ((2,), "[2,]"), (True, "[True]")])
def test_a_bracket_is_shown_as_it_is_written(key: object, shown: str) -> None:
    found = launching.misshapen("kernel", key)
    assert found is not None
    assert found.message == f"kernel is launched with {shown}"


@pytest.mark.parametrize("key", [(4, 2), 0, -1, True, 1.0, "2", None])
def test_the_bracket_holds_one_whole_number(key: object) -> None:
    found = launching.misshapen("kernel", key)
    assert found is not None
    assert found.code == "NKI016"
    assert launching.shown(key) in found.message


def test_a_called_kernel_has_no_grid() -> None:
    found = launching.grid_in_kernel("inner", (2,))
    assert (found.code, found.help) == ("NKI016", "call inner(...)")
