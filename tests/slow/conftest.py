"""What slow tests share: a shell with the magic, and environments made from the wheel."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.shells import ipython
from tests.slow.environments import Install, installer


@pytest.fixture(scope="module")
def notebook_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """A shell in which cells may start with `%%nki`."""
    with ipython(tmp_path_factory.mktemp("ipython")) as shell:
        yield shell


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes an environment with extras from the wheel and gives its interpreter."""
    return installer(tmp_path_factory.mktemp("installs"))


@pytest.fixture
def patience() -> None:
    """Soaks last as long as they are told to, fetching packages as long as the network; what is called has limits."""
    faulthandler.cancel_dump_traceback_later()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with patience have no limit."""
    for item in items:
        if "patience" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(0))
