"""One JupyterLab and one Chromium for all browser tests; each test has a window of its own, and nothing may leave it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.lab import OTHER_CLIENT, ROOT, Lab, Window, chromium, lab, window

EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab over a folder with the examples, without jupyterlab-lsp."""
    folder = tmp_path_factory.mktemp("notebooks")
    for example in EXAMPLES:
        shutil.copy(example, folder)
    with lab(folder, without=(OTHER_CLIENT,)) as started:
        yield started


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Browser) -> Iterator[Window]:
    """A window whose page asks nothing of other places and reports no errors."""
    with window(browser) as made:
        yield made
        assert made.requests == []
        assert made.errors == []
