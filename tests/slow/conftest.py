"""What the tests with frameworks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.shells import ipython


@pytest.fixture(scope="module")
def notebook_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    """A shell in which cells may start with `%%nki`."""
    with ipython(tmp_path_factory.mktemp("ipython")) as shell:
        yield shell
