"""The summary of a recording: results by name, as JSON, those that reports compute with of a declared kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from nki_lab.kernel_runtime.recording import schema
from nki_lab.kernel_runtime.recording.columns import Json

MAKESPAN: Final = "makespan_ps"
"""The name in the summary of the end of the run, in picoseconds."""

_DEEPEST: Final = 16
"""Lists and objects inside of each other."""
_MOST: Final = 1 << 63


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST


def _is_count(value: Json) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


def _is_amount(value: Json) -> bool:
    return _is_number(value) and value >= 0


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_of_ranks(value: Json) -> bool:
    """Whether a value is an object of numbers and of lists of them, a number for each rank."""
    return _is_object(value) and all(
        all(map(_is_amount, item)) if isinstance(item, list | tuple) else isinstance(item, bool) or _is_number(item)
        for item in value.values()
    )


_KINDS: Final[Mapping[str, Callable[[Json], bool]]] = MappingProxyType(
    {
        "text": lambda value: isinstance(value, str),
        "count": _is_count,
        "amount": _is_amount,
        "time": lambda value: _is_count(value) and value <= schema.LAST_PICOSECOND,
        "duration": lambda value: _is_amount(value) and value * 1000 <= schema.LAST_PICOSECOND,
        "row": lambda value: _is_number(value) and isinstance(value, int) and value >= -1,
        "object": _is_object,
        "amounts": lambda value: _is_object(value) and all(map(_is_amount, value.values())),
        "interval": lambda value: isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_amount, value)),
        "list": lambda value: isinstance(value, list | tuple),
        "ranks": _is_of_ranks,
    }
)
_MEANINGS: Final = {
    "text": "a text", "count": "a whole number from 0 on", "amount": "a number from 0 on",
    "time": "a time in whole picoseconds", "duration": "nanoseconds from 0 on, 53 days at most",
    "row": "a row, or -1", "object": "an object",
    "amounts": "an object of numbers from 0 on", "interval": "two numbers from 0 on",
    "list": "a list", "ranks": "an object of numbers, and of lists of numbers from 0 on",
}  # fmt: skip

RESULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        MAKESPAN: "time",
        "kernel": "text",
        "target": "text",
        "options": "object",
        "diagnostics": "list",
        "fault": "row",
        "makespan_ns": "amount",
        "makespan_without_compiler_model_ns": "amount",
        "makespan_interval_ns": "interval",
        "launch_ns": "duration",
        "instructions": "count",
        "cores": "count",
        "flops": "amount",
        "dma_bytes": "amount",
        "hbm_read_bytes": "amount",
        "hbm_write_bytes": "amount",
        "sbuf_peak_bytes_per_partition": "amount",
        "psum_peak_bytes_per_partition": "amount",
        "sbuf_occupied_bytes_per_partition": "amount",
        "psum_occupied_bytes_per_partition": "amount",
        "mfu": "amount",
        "hfu": "amount",
        "mbu": "amount",
        "confidence": "amounts",
        "engine_busy_ns": "amounts",
        "stall_ns": "amounts",
        "slowed_ns": "amounts",
        "compiler_model": "amounts",
        "ranks": "ranks",
    }
)
"""The kinds of the results that reports and views compute with; others are shown as they are."""


def dumped(name: str, value: Json) -> str:
    """Return a result as JSON. ValueError where it is none."""
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"summary {name!r} cannot be kept as JSON: {error}") from error


def loaded(names: Sequence[str], texts: Sequence[str]) -> dict[str, Json]:
    """Return the results of a saved summary. ValueError where one is no JSON, or of another kind than its name has."""
    found: dict[str, Json] = {}
    for name, text in zip(names, texts, strict=True):
        if name in found:
            raise ValueError(f"the summary has {name!r:.80} twice")
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise ValueError(f"summary {name!r:.80} is no JSON: {reason}") from error
        found[name] = value
    check(found)
    if MAKESPAN not in found:
        raise ValueError(f"the summary has no {MAKESPAN}")
    return found


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")


def check(found: Mapping[str, Json]) -> None:
    """ValueError where a result is of another kind than its name has, or cannot be shown."""
    for name, value in found.items():
        kind = RESULTS.get(name)
        if kind is not None and not _KINDS[kind](value):
            raise ValueError(f"summary {name!r} is {value!r:.80}, expected {_MEANINGS[kind]}")
        _check_value(name, value, _DEEPEST)


def _check_value(name: str, value: Json, depth: int) -> None:
    """ValueError where a value holds a number or a text that reports cannot print, or is nested too deeply."""
    if isinstance(value, Mapping | list | tuple):
        if not depth:
            raise ValueError(f"summary {name!r:.80} has more than {_DEEPEST} objects and lists inside of each other")
        for part in (*value, *value.values()) if isinstance(value, Mapping) else value:
            _check_value(name, part, depth - 1)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"summary {name!r}: {error}") from error
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"summary {name!r:.80} has the number {value}")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _MOST:
        raise ValueError(f"summary {name!r:.80} has a number beyond 64 bits")
