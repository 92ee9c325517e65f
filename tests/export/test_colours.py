"""Hue says which engine works, or which one is waited for."""

from __future__ import annotations

import pytest

from nki_lab.export.colours import COLOURS
from nki_lab.kernel_runtime.vocabulary import KINDS, STALL_REASONS, kind_of_lane, kind_of_stall


def test_every_wait_has_the_colour_of_what_is_waited_for() -> None:
    colours = {name: kind_of_stall(name) for name in STALL_REASONS}
    assert set(colours.values()) <= KINDS.keys() <= COLOURS.keys()
    assert colours["data from vector"] == "vector"
    assert colours["bandwidth"] == colours["data from dma"] == "dma"
    assert colours["table load"] == "scalar"
    assert kind_of_stall("vector") == "sync"


@pytest.mark.parametrize(
    ("name", "kind", "colour"),
    [("tensor", "engine", "tensor"), ("vector 2", "engine", "vector"), ("dma q3 sync", "dma", "dma"),
     ("ring", "collective", "cc"), ("tpu", "engine", "sync"), ("dma q3 sync", "engine", "sync"), ("cc", "engine", "sync")],
)  # fmt: skip
def test_a_lane_has_the_colour_of_its_engine(name: str, kind: str, colour: str) -> None:
    assert kind_of_lane(name, kind) == colour
