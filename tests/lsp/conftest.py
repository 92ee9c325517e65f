"""One server for the tests of a module: starting a process is what takes time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lsp.client import Client, connect


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """An editor that is told findings."""
    made = connect()
    made.initialize()
    yield made
    if made.process.poll() is None:
        assert made.leave() == 0


@pytest.fixture(scope="module")
def patient() -> Iterator[Client]:
    """An editor whose server evaluates kernels for a minute."""
    made = connect()
    made.initialize(steps=72_000_000)
    yield made
    assert made.leave() == 0


@pytest.fixture
def uri(request: pytest.FixtureRequest) -> str:
    """A text of the test's own."""
    return f"file:///project/{request.node.name.partition('[')[0]}_{abs(hash(request.node.name))}.py"
