"""Hue says which engine works, or which one is waited for."""

from __future__ import annotations

import pytest

from nki_lab.export.colours import KINDS, of_lane, of_reason
from nki_lab.kernel_runtime.recording import Lane
from nki_lab.kernel_runtime.timing import STALL_REASONS


def test_every_wait_has_the_colour_of_what_is_waited_for() -> None:
    colours = {name: of_reason(name) for name in STALL_REASONS}
    assert set(colours.values()) <= set(KINDS)
    assert colours["data from vector"] == "vector"
    assert colours["bandwidth"] == colours["data from dma"] == "dma"
    assert colours["table load"] == "scalar"
    assert of_reason("vector") == "sync"


@pytest.mark.parametrize(
    ("name", "kind", "colour"),
    [("tensor", "engine", "tensor"), ("vector 2", "engine", "vector"), ("dma q3 sync", "dma", "dma"),
     ("ring", "collective", "cc"), ("tpu", "engine", "sync")],
)  # fmt: skip
def test_a_lane_has_the_colour_of_its_engine(name: str, kind: str, colour: str) -> None:
    assert of_lane(Lane(number=0, name=name, kind=kind, core=0)) == colour
