"""Faults in memories, dtypes and sizes are found without shapes; `without_shapes.py` is the same over many more."""

from __future__ import annotations

import pytest

from tests.recall.subjects import EXAMPLES
from tests.recall.without_shapes import WANTED, measure

pytestmark = pytest.mark.extended


def test_most_faults_are_found_without_shapes() -> None:
    score = measure([EXAMPLES / "k01_add.py", EXAMPLES / "k03_softmax.py"], 2)
    assert sum(score.faults.values()) >= 8
    assert score.false == []
    shares = {kind: score.share(kind) for kind in score.faults}
    assert all(share >= WANTED[kind] for kind, share in shares.items()), [shares, *score.missed]
