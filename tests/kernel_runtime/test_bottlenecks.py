"""The sentences about what holds a run back, as reports and pages get them."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.bottlenecks import bottlenecks
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.wire import Messages
from tests.recordings import drawn

ROWS = {
    "start": [0, 2_000_000, 2_100_000, 5_000_000],
    "duration": [2_000_000, 100_000, 2_500_000, 1_000_000],
    "lane": [2, 0, 2, 1],
    "op": [0, 0, 0, 0],
    "site": [0, 1, 0, 1],
    "after": [-1, 0, -1, 2],
    "stall": [0, 1, 0, 1],
}
TABLES = {
    "rows": ROWS,
    "lanes": {"name": ["tensor", "vector", "dma q0"], "kind": [0, 0, 1]},
    "stalls": {"name": ["none", "data from dma", "bandwidth"]},
    "ops": {"name": ["x"]},
    "sites": {"source": [0, 0], "line": [3, 4]},
    "sources": {"path": ["kernel.py"], "text": ["a\nb\nc\nd\n"]},
}


def texts(recording: Recording) -> list[str]:
    return ["".join("N %" if part.share is not None else part.text for part in said) for said in bottlenecks(recording)]


def test_work_is_followed_by_who_waits_for_it_and_the_line() -> None:
    assert texts(Recording(TABLES | {"critical": {"row": [2, 3]}})) == [
        "DMA is on the critical path N % of the time.",
        "Vector waits for data from DMA.",
        "Line 3 costs most: N %.",
    ]


def test_the_row_that_waits_longest_for_the_largest_work_is_named() -> None:
    rows = ROWS | {"stall": [0, 1, 0, 1], "after": [-1, 0, 1, 2]}
    recording = Recording(TABLES | {"rows": rows, "critical": {"row": [0, 1, 2, 3]}})
    waiting = [item for said in bottlenecks(recording) for item in said if item.row >= 0]
    path = digest(recording).path
    rest = {int(row): int(time) for row, time in zip(path.row, path.rest, strict=True)}
    assert [item.row for item in waiting] == [max(rest, key=lambda row: rest[row])]
    assert waiting[0].text == "data from DMA"


def test_no_lane_is_said_to_wait_for_itself() -> None:
    lanes = {"name": ["tensor", "dma q1", "dma q0"], "kind": [0, 1, 1]}
    recording = Recording(TABLES | {"lanes": lanes, "critical": {"row": [2, 3]}})
    assert texts(recording) == ["DMA is on the critical path N % of the time.", "Line 3 costs most: N %."]


def test_a_wait_that_is_larger_than_any_work_is_named() -> None:
    rows = ROWS | {"start": [0, 9_000_000, 2_100_000, 19_000_000], "stall": [0, 2, 0, 2], "after": [-1, 0, -1, 1]}
    first, *rest = texts(Recording(TABLES | {"rows": rows}))
    assert first == "The critical path waits N % of the time for DMA bandwidth that others use."
    assert rest == ["Line 4 costs most: N %."]


def test_two_cores_are_told_apart() -> None:
    lanes = {"name": ["tensor", "vector", "dma q0"], "kind": [0, 0, 1], "core": [0, 1, 0]}
    recording = Recording(TABLES | {"lanes": lanes, "critical": {"row": [2, 3]}})
    assert "Vector, core 1 waits for data from DMA." in texts(recording)


@given(drawn())
def test_every_run_has_a_sentence_that_its_page_gets(recording: Recording) -> None:
    said = bottlenecks(recording)
    assert all(sentence[-1].text.endswith(".") for sentence in said)
    first, *_ = said
    assert any(item.share is not None for item in first) == (recording.makespan > 0)
    shares = [item.share for sentence in said for item in sentence if item.share is not None]
    assert all(0 <= share <= 1 for share in shares)
    head, _ = Messages(recording)._whole
    order = np.asarray(recording.order[0 : len(recording)])
    for sentence, sent in zip(said, head["bottlenecks"], strict=True):
        for item, part in zip(sentence, sent["parts"], strict=True):
            assert part.get("text", "") == item.text
            assert item.row < 0 or order[part["waiting"]] == item.row
