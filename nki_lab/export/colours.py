"""Which colour stands for what: hue says which engine works, or which one is waited for."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from nki_lab.kernel_runtime.recording import Lane

KINDS: Final = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma", "cc")
"""What has a hue of its own; `cc` are collectives. The page's style sheet gives the hues."""

_OF_REASON: Final = MappingProxyType({
    "dma trigger": "dma", "dma start": "dma", "queue interval": "dma", "bandwidth": "dma",
    "table load": "scalar", "stationary load": "tensor", "power ramp": "tensor",
})  # fmt: skip
FROM_OTHERS: Final = frozenset(
    {"anti-dependency", "output order", "memory reuse", "user order", "semaphore", "other core"}
)
"""Waits that have the colour of the lane that ends them."""


def of_lane(lane: Lane) -> str:
    """The kind of a lane, "vector 2" being one of vector; sync, which is grey, for engines that nobody knows."""
    if lane.kind != "engine":
        return "dma" if lane.kind == "dma" else "cc"
    name = lane.name.partition(" ")[0]
    return name if name in KINDS else "sync"


def of_reason(name: str) -> str:
    """The kind that a wait's reason names; sync where it names none."""
    source = name.removeprefix("data from ")
    return source if source in KINDS and source != name else _OF_REASON.get(name, "sync")
