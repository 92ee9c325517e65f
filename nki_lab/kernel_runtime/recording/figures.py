"""The figures that reports and views show of a run, each with its one definition."""

from __future__ import annotations

from typing import Final, NamedTuple


class Figure(NamedTuple):
    """A figure: its name in the schema of the views, its label, and what it is."""

    name: str
    label: str
    definition: str


FIGURES: Final = (
    Figure("busy", "busy", "The time in which a lane executes instructions, slowed parts included; of DMA, the time in "
           "which any queue of the core does. Shares are of the time shown."),
    Figure("slowed", "slowed", "The part of the busy time by which instructions take longer than their own work."),
    Figure("critical", "critical", "The part of the busy time that lies on the critical path."),
    Figure("waiting", "waiting", "The time in which a lane is idle before an instruction that it will execute next."),
    Figure("empty", "nothing queued", "The time after a lane's last instruction."),
    Figure("live", "live", "Bytes of tiles in use at a time, from the first write to the last read, in the fullest "
           "partition of a core."),
    Figure("peak", "peak", "The most live bytes at any time, in the fullest partition of a core; of a run, of its "
           "fullest core."),
    Figure("addressed", "addressed up to", "The end of the highest address that any tile of a core takes; what lies "
           "free below counts."),
    Figure("dead", "dead", "Bytes of tiles that were read for the last time and that no other tile took since, in the "
           "partition with most of them."),
    Figure("free", "free", "Bytes of a partition that neither live nor dead tiles take, in any partition of a core."),
    Figure("fragmented", "fragmented", "The share of the free bytes outside the largest gap."),
)  # fmt: skip
DEFINITIONS: Final = {figure.name: figure.definition for figure in FIGURES}
