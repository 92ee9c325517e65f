"""The names of tensors: the index that tells copies apart, and where it stands in a message."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.wire import encode
from nki_lab.wire.labels import _tell_apart, tensor_labels
from nki_lab.wire.rows import Steps
from tests.wire.reader import read

LOOPS = st.lists(st.lists(st.integers(-3, 3), max_size=3).map(tuple), min_size=1, max_size=8)


def in_loops(iterations: list[tuple[int, ...]], names: list[str] | None = None) -> Recording:
    """Tensors that one instruction each writes, in an iteration of one loop nest; without a name they are all `acc`."""
    table: dict[str, list[int]] = {"parent": [], "value": []}
    innermost = []
    for values in iterations:
        parent = -1
        for value in values:
            table["parent"].append(parent)
            table["value"].append(value)
            parent = len(table["value"]) - 1
        innermost.append(parent)
    count, every = len(iterations), range(len(iterations))
    tables: dict[str, Any] = {
        "rows": {
            **dict.fromkeys(("op", "lane", "stall"), [0] * count),
            "start": every,
            "duration": [1] * count,
            "access": every,
            "iteration": innermost,
        },
        "accesses": {"view": every, "role": [1] * count},
        "views": {"buffer": every, "pattern": [0] * count, "offset": [0] * count},
        "patterns": {"dtype": ["float32"], "dim": [0], "rank": [1]},
        "dims": {"size": [1], "step": [1]},
        "buffers": {"name": names or ["acc"] * count, "space": [0] * count, "partition_bytes": [4] * count},
        "lanes": {"name": ["tensor"], "kind": [0], "core": [0]},
        "stalls": {"name": ["none"]},
        "ops": {"name": ["write"]},
        "iterations": {**table, "loop": ["i"] * len(table["value"]), "site": [-1] * len(table["value"])},
    }
    return Recording(tables, {})


def sent(recording: Recording) -> list[str]:
    """What a message calls each tensor."""
    header, told = read(encode(recording))
    return [header["names"][number] for number in told["buffers"]["name"]]


def test_copies_are_told_apart_by_the_loops_that_differ() -> None:
    assert _tell_apart([(0, 2), (0, 3)]) == ["2", "3"]
    assert _tell_apart([(0, 0), (0, 1), (1, 0)]) == ["0, 0", "0, 1", "1, 0"]
    assert _tell_apart([(4, 0), (4, 0)]) == ["0", "1"]
    assert _tell_apart([(), ()]) == ["0", "1"]
    assert _tell_apart([(1,), (1, 5)]) == ["–", "5"]
    assert _tell_apart([(number,) for number in range(300_000)])[-1] == "299999"


def test_a_message_has_the_label_of_each_tensor() -> None:
    assert sent(in_loops([(0, 1), (0, 2), (1, 1)])) == ["acc[0, 1]", "acc[0, 2]", "acc[1, 1]"]
    assert sent(in_loops([(0,), (0,)], ["left", "right"])) == ["left", "right"]
    assert sent(in_loops([(0,), (1,)], ["", ""])) == ["tile 1", "tile 2"]
    # A tensor may have the name that another one's label is.
    assert sent(in_loops([(0,), (1,), (0,)], ["acc", "acc", "acc[1]"])) == ["acc[0]", "acc[1]", "acc[1]"]


@given(LOOPS)
def test_no_two_copies_have_one_label_and_messages_say_what_python_does(iterations: list[tuple[int, ...]]) -> None:
    recording = in_loops(iterations)
    labels = tensor_labels(Steps(recording))
    assert sent(recording) == labels
    assert len(set(labels)) == len(labels)
