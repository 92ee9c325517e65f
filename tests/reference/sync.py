"""sendrecv and core_barrier as one core alone sees them: it receives what it sends, and waits for nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.reference.grid import Operand, Result, Stored


def sendrecv(ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    return {"dst": Stored(ins["src"].array)}


def core_barrier(_ins: Mapping[str, Operand], _attrs: Mapping[str, Any], _state: Any) -> dict[str, Result]:
    return {}
