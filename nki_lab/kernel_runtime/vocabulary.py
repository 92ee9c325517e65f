"""The vocabulary of runs: engines, reasons to wait, dependences, accesses and memories, with their labels.

Each is a table whose order gives the numbers that programs' schedules, recordings and messages hold. Reports and pages
show the labels; what pages need is written into `labextension/src/_generated/schema.ts`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple, get_args

from nki_lab.isa.arch import Confidence

CONFIDENCES: Final[tuple[str, ...]] = get_args(Confidence)
"""Degrees to which a number is known, the surest first."""

ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "sync")
"""The engines of a core, in drawing order."""

KINDS: Final = MappingProxyType(
    {
        "tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "sync": "Sync", "dma": "DMA",
        "cc": "Collectives",
    }
)  # fmt: skip
"""Kinds of lanes with their labels: engines, `dma` for all queues, `cc` for collectives. Each has a hue of its own."""

NO_KIND: Final = "sync"
"""The kind whose hue, grey, stands for whatever has no kind of its own."""

LANE_KINDS: Final = ("engine", "dma", "collective")
DATA_FROM: Final = "data from "


class Stall(NamedTuple):
    """A reason to wait.

    `label` completes "waits for …", `short` is the same in one or two words. `kind` is the kind of lane that the reason
    names, `NO_KIND` where no lane could end it sooner; empty: that of the lane whose row ends the wait. `by_result` is
    true where the wait ends a while after the result of that row is visible, else it ends when the row leaves its lane;
    `for_tile` where it ends with a tile: the tile is there, or its memory is free.
    """

    name: str
    label: str
    short: str
    kind: str = ""
    by_result: bool = False
    for_tile: bool = False


STALLS: Final = (
    Stall("none", "a reason that was not recorded", "unknown", NO_KIND),
    *(
        Stall(DATA_FROM + kind, DATA_FROM + KINDS[kind], KINDS[kind], kind, by_result=True, for_tile=True)
        for kind in (*ENGINES, "dma")
    ),
    Stall("anti-dependency", "earlier reads of the same bytes", "earlier reads", by_result=True, for_tile=True),
    Stall("output order", "earlier writes of the same bytes", "earlier writes", by_result=True, for_tile=True),
    Stall("memory reuse", "memory that another tensor still uses", "memory in use", by_result=True, for_tile=True),
    Stall("user order", "the order that the schedule asks for", "user order", by_result=True),
    Stall("semaphore", "semaphores", "semaphore", NO_KIND, by_result=True),
    Stall("table load", "loads of activation tables", "table load", "scalar"),
    Stall("stationary load", "loads of stationary tiles", "stationary load", "tensor"),
    Stall("dma trigger", "DMA descriptors to be made", "DMA descriptors", "dma", by_result=True),
    Stall("dma start", "DMA transfers to start", "DMA start", "dma"),
    Stall("queue interval", "the interval between two DMA transfers", "queue interval", "dma"),
    Stall("bandwidth", "DMA bandwidth that others use", "DMA bandwidth", "dma"),
    Stall("port conflict", "a memory port that another engine has", "memory port"),
    Stall("psum bank", "a PSUM bank that another engine has", "PSUM bank", for_tile=True),
    Stall("power ramp", "the Tensor Engine's clock to rise", "clock to rise", "tensor"),
    Stall("launch", "the kernel to be launched and ended", "launch", NO_KIND),
    Stall("other core", "the other core", "other core", by_result=True),
    Stall("other rank", "the other ranks", "other rank", by_result=True),
    Stall("loop", "the count and the branch of a loop on the device", "loop", NO_KIND),
)
"""Reasons to wait; the first is no wait at all.

*data from X*: a value that X has yet to produce. *anti-dependency*, *output order*: an earlier read or write of the
same bytes. *memory reuse*: bytes of another tensor that is still in use. *user order*: an edge of the user's schedule.
*semaphore*: everything is ready but the signal of it. *table load*, *stationary load*: an engine's own preparation.
*dma trigger*: the descriptor generator is at work for other transfers. *dma start*: from trigger to first data. *queue
interval*: what a DMA queue needs from one transfer to the next. *bandwidth*: DMA engines shared with other queues, or
HBM with another core. *port conflict*, *psum bank*: another engine has the memory. *power ramp*: the Tensor Engine's
clock has yet to rise. *launch*: before and after the kernel. *other core*: what the other core has yet to come to, in
an exchange or a barrier. *other rank*: data of a rank that comes to a collective later. *loop*: an engine's sequencer
counts, compares and branches at the begin of an iteration.
"""

STALL_OF: Final = MappingProxyType({stall.name: stall for stall in STALLS})
STALL_REASONS: Final = tuple(STALL_OF)


class Dependence(NamedTuple):
    """A kind of edge: why a row waits for another. `label` is what the row does, `stall` the reason of the wait; empty
    where that is the data
    of the lane that the edge comes from."""

    name: str
    label: str
    stall: str = ""


DEPENDENCES: Final = (
    Dependence("flow", "reads its result"),
    Dependence("anti", "overwrites what it reads", "anti-dependency"),
    Dependence("output", "overwrites its result", "output order"),
    Dependence("reuse", "takes over its memory", "memory reuse"),
    Dependence("user", "ordered by the schedule", "user order"),
    Dependence("core", "synchronizes with the other core", "other core"),
    Dependence("rank", "takes what another rank sends", "other rank"),
)
"""Read after write, write after read, write after write, bytes of another tensor before, an edge of the user, and what
a row waits for on the other core where the two synchronize, or on the rank whose data comes last."""

EDGE_KINDS: Final = tuple(edge.name for edge in DEPENDENCES)

ROLE_LABELS: Final = MappingProxyType({"read": "reads", "write": "writes", "accumulate": "adds to"})
"""The roles of operands in an instruction, with labels."""

ROLES: Final = tuple(ROLE_LABELS)
MEMORIES: Final = MappingProxyType({"sbuf": "SBUF", "psum": "PSUM", "hbm": "HBM"})
"""Memories with their labels."""

MEMORY_OF: Final = MappingProxyType({"sbuf": "sbuf", "psum": "psum", "private_hbm": "hbm", "shared_hbm": "hbm"})
"""The memory of each space that a buffer may be in."""

SPACES: Final = tuple(MEMORY_OF)
BUFFER_KINDS: Final = ("temp", "input", "output", "const")
INDIRECTIONS: Final = ("none", "scalar", "vector", "gather")
DESCRIPTOR_MODES: Final = ("none", "static", "hardware", "software")
"""Writers of a transfer's descriptors; none: the row is no transfer."""

ORIGIN_LABELS: Final = MappingProxyType(
    {
        "source": "as the program says",
        "moved": "on another engine, or earlier, than the program says",
        "left out": "not executed",
        "inserted": "not in the program",
    }
)
"""What the compiler model did with a row, in the words of the views."""

ORIGINS: Final = tuple(ORIGIN_LABELS)
"""What the compiler model did with a row.

*source*: nothing. *moved*: it runs on another engine than the program says, or earlier than rows of its engine that
stand before it. *left out*: it is not executed; another row stands for it, or nothing needs its result. *inserted*: the
program has no such row.
"""

LOOP_KINDS: Final = ("python", "device")
"""Where a loop runs: in Python, which issues the instructions of each iteration, or on the chip."""

ITERATION_STATES: Final = ("unsettled", "warm-up", "steady", "outlier")
"""The states of a loop's iterations.

*unsettled*: its execution reaches no steady state. *warm-up*: before that. *steady*: after it, and regular. *outlier*:
after it, and not regular.
"""

ARRANGEMENTS: Final = ("undeclared", "in order", "transposed", "product", "in place")
"""Where elements of the result come from.

*in order*: element by element in row-major order of the views. *transposed*: the first and the last dimension are
swapped. *product*: row i, column j of column i of the stationary and column j of the moving operand. *in place*: from
the elements in the same place of each operand.
"""


def kind_of_lane(name: str, kind: str) -> str:
    """The kind of a lane, "vector 2" being one of vector; `NO_KIND` for engines that nobody knows."""
    if kind != "engine":
        return "dma" if kind == "dma" else "cc"
    first = name.partition(" ")[0]
    return first if first in ENGINES else NO_KIND


def known_kind(name: str) -> str:
    """Return a kind of lane, `NO_KIND` for a name that is none: recordings of others may have lanes of their own."""
    return name if name in KINDS else NO_KIND


def kind_of_stall(name: str) -> str:
    """The kind that a reason to wait names; `NO_KIND` where only the row that waits could tell."""
    return STALL_OF[name].kind or NO_KIND if name in STALL_OF else NO_KIND


def lane_label(name: str, core: int = 0, cores: int = 1) -> str:
    """An engine or a queue by name, "DMA q0 sync", with its core where there are several."""
    first, space, rest = name.partition(" ")
    label = f"{KINDS.get(first, first)}{space}{rest}"
    return f"{label}, core {core}" if cores > 1 else label


def reason(name: str) -> str:
    """Return the cause of a wait: "data from Vector", "DMA transfers to start"."""
    return STALL_OF[name].label if name in STALL_OF else name
