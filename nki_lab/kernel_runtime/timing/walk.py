"""The event walk: every instruction of a scheduled program gets a start, an end and a reason for its wait.

Lanes take their ops in order. An op starts when its lane is free, what it depends on is finished, and nothing else has
the memory that it needs; its lane is free again after its issue interval, and its result is visible after its latency,
to other lanes one semaphore later. Compute lanes are worked off as far as what is known allows; where lanes meet (DMA
engines and descriptor generators, locked memories) events are taken in order of time, equal ones in order of lanes.
All times are whole picoseconds, so that equal input gives equal columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

import numpy as np

from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.kernel_runtime.timing.account import Timing, timing_of
from nki_lab.kernel_runtime.timing.columns import Columns
from nki_lab.kernel_runtime.timing.costs import VariantCost, costs_of, picoseconds
from nki_lab.kernel_runtime.timing.dma import NEVER, DmaEngines, Queue, Transfer, Trigger, Waiting, trigger_of
from nki_lab.kernel_runtime.timing.engines import PowerRamp, Results, reused_tiles
from nki_lab.kernel_runtime.timing.reasons import (
    BANDWIDTH,
    BANK,
    NONE,
    OF_EDGE,
    PORT,
    RAMP,
    SEMAPHORE,
    STATIONARY,
    TABLE,
    TRIGGER,
    data_from,
)

# Kinds of events; at one time an engine's instruction comes before a DMA's trigger and data.
_START: Final = 0
_ASK: Final = 1
_DATA: Final = 2
