"""What is drawn for minutes: calls, hostile texts, forged recordings, and kernels that plans repeat."""

from __future__ import annotations

import pytest

from tests.fuzz import hostile_calls, recordings, repeated, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patience")]


def test_ten_thousand_calls_pass() -> None:
    assert run.main(["--calls", "10000", "--seed", "100000"]) == 0


def test_a_thousand_hostile_texts_pass() -> None:
    assert hostile_calls.main(["--kernels", "1000", "--seed", "60000"]) == 0


def test_two_thousand_forged_recordings_are_read_or_refused() -> None:
    assert recordings.main(["--mutations", "2000", "--seed", "100000"]) == 0


@pytest.mark.parametrize("first", range(100_000, 105_000, 1000))
def test_five_thousand_kernels_repeat(first: int) -> None:
    assert repeated.main(["--kernels", "1000", "--seed", str(first), "--processes"]) == 0
