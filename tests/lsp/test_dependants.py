"""A file that is edited, saved, created or deleted changes the findings of those that import it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import PULLING, PUSHED, Client, codes, connect
from tests.lsp.test_modules import HELPERS, KERNEL

pytestmark = pytest.mark.extended

RIGHT = HELPERS.replace("t[:, 0:32]", "t")
WATCHING: dict[str, Any] = PULLING | {
    "workspace": {
        "diagnostics": {"refreshSupport": True},
        "inlayHint": {"refreshSupport": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
    }
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return tmp_path


@pytest.fixture
def told() -> Iterator[Client]:
    client = connect()
    client.initialize(PUSHED)
    yield client
    assert client.leave() == 0


@pytest.fixture
def asking() -> Iterator[Client]:
    client = connect()
    client.initialize(WATCHING)
    yield client
    assert client.leave() == 0


def errors(client: Client, uri: str) -> list[str]:
    return codes([item for item in client.pulled(uri)["items"] if item["severity"] == 1])


def refreshed(client: Client) -> None:
    client.receive(lambda item: item.get("method") == "workspace/diagnostic/refresh")


def test_an_unsaved_helper_counts(project: Path, told: Client) -> None:
    kernel, helper = ((project / name).as_uri() for name in ("kernel.py", "helpers.py"))
    told.open(kernel, KERNEL)
    told.until(kernel, ["NKI203"])
    told.open(helper, HELPERS)
    told.until(helper, ["NKI203"])
    told.until(kernel, [])
    line = HELPERS.splitlines()[4]
    told.change(helper, (4, line.index("[:, 0:32]"), 4, line.index("[:, 0:32]") + 9, ""))
    told.until(helper, [])
    told.change(helper, RIGHT.replace("def narrowed(t):", "def narrowed(t, more):"))
    told.until(kernel, ["NKI007"])
    told.shut(helper)  # unsaved: what the disk has counts again
    assert "helpers.py, line 5" in told.until(kernel, ["NKI203"])[0]["message"]


def test_a_saved_helper_counts_at_once(project: Path, asking: Client) -> None:
    kernel, helper = ((project / name).as_uri() for name in ("kernel.py", "helpers.py"))
    asking.open(kernel, KERNEL)
    assert errors(asking, kernel) == ["NKI203"]
    asking.open(helper, RIGHT)
    asking.notify("textDocument/didSave", {"textDocument": {"uri": helper}})
    refreshed(asking)
    assert errors(asking, kernel) == []
    assert any(item.get("method") == "workspace/inlayHint/refresh" for item in asking.seen)


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_files_that_change_on_the_disk_count(project: Path, asking: Client, kind: int) -> None:
    """Created, changed and deleted: the editor reports it."""
    kernel, helper = (project / "kernel.py").as_uri(), project / "helpers.py"
    if kind == 1:
        helper.unlink()
    asking.open(kernel, KERNEL)
    assert errors(asking, kernel) == ([] if kind == 1 else ["NKI203"])
    if kind == 3:
        helper.unlink()
    else:
        helper.write_text(HELPERS if kind == 1 else RIGHT, encoding="utf-8")
    asking.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": helper.as_uri(), "type": kind}]})
    refreshed(asking)
    assert errors(asking, kernel) == (["NKI203"] if kind == 1 else [])


def test_the_editor_is_asked_to_report_what_counts(asking: Client) -> None:
    found = asking.receive(lambda item: item.get("method") == "client/registerCapability")
    options = {item["method"]: item.get("registerOptions") for item in found["params"]["registrations"]}
    patterns = {item["globPattern"] for item in options["workspace/didChangeWatchedFiles"]["watchers"]}
    assert {"**/*.py", "**/*.ipynb", "**/pyproject.toml", "**/*.pth"} <= patterns


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("workspace/didRenameFiles", {"files": [{"oldUri": "{helper}", "newUri": "{helper}x"}]}),
        ("workspace/didDeleteFiles", {"files": [{"uri": "{helper}"}]}),
        ("workspace/didCreateFiles", {"files": [{"uri": "{helper}"}]}),
    ],
)
def test_files_that_the_editor_renames_creates_and_deletes_count(
    project: Path, asking: Client, method: str, params: Any
) -> None:
    kernel, helper = (project / "kernel.py").as_uri(), project / "helpers.py"
    asking.open(kernel, KERNEL)
    assert errors(asking, kernel) == ["NKI203"]
    helper.write_text(RIGHT, encoding="utf-8") if "Create" in method else helper.rename(project / "other.py")
    files = [{key: uri.replace("{helper}", helper.as_uri()) for key, uri in item.items()} for item in params["files"]]
    asking.notify(method, {"files": files})
    refreshed(asking)
    assert errors(asking, kernel) == []


def test_changed_project_settings_count(project: Path, asking: Client) -> None:
    kernel, file = (project / "kernel.py").as_uri(), project / "pyproject.toml"
    asking.open(kernel, KERNEL)
    assert errors(asking, kernel) == ["NKI203"]
    file.write_text("[tool.nki-lab]\nignore = ['NKI203']\n", encoding="utf-8")
    asking.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": file.as_uri(), "type": 2}]})
    refreshed(asking)
    assert errors(asking, kernel) == []


def test_an_unsaved_caller_gives_shapes(project: Path, asking: Client) -> None:
    """The calls of a script that is open count as it stands in the editor."""
    kernel, script = project / "kernel.py", project / "script.py"
    text = KERNEL.replace(": nki.typing.tensor[128, 64]", "").replace("from .helpers", "from helpers")
    head = "import numpy as np\nfrom kernel import kernel\n\n"
    kernel.write_text(text, encoding="utf-8")
    script.write_text(f"{head}kernel(np.zeros((128, 64), np.float32))\n", encoding="utf-8")
    asking.open(kernel.as_uri(), text)
    assert errors(asking, kernel.as_uri()) == ["NKI203"]
    asking.open(script.as_uri(), f"{head}kernel(np.zeros((128, 65), np.float32))\n")
    refreshed(asking)
    assert "NKI203" in errors(asking, kernel.as_uri())
    assert "65" in str(asking.pulled(kernel.as_uri())["items"])


LOADED = """import nki
import nki.isa as nisa
import nki.language as nl

def loaded(a):
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)
    return t
"""
LOADS = """import nki
import nki.typing as nt
from loading import loaded

@nki.jit
def kernel(a: nt.tensor[256, 64]):
    return loaded(a)
"""


@pytest.mark.parametrize("before", [LOADS.replace("256", "128"), LOADS.replace("loading", "others")])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_helper_is_examined_as_an_edited_kernel_calls_it(
    project: Path, asking: Client, before: str, is_open: bool
) -> None:
    """The kernel gives it other shapes, or is the first to import it; it is opened a moment later, or open."""
    kernel, helper = (project / "kernel.py").as_uri(), (project / "loading.py").as_uri()
    (project / "loading.py").write_text(LOADED, encoding="utf-8")
    asking.open(kernel, before)
    asking.pulled(kernel)
    if is_open:
        asking.open(helper, LOADED)
        assert "NKI204" not in errors(asking, helper)
    asking.change(kernel, LOADS)
    if is_open:
        asking.pulled(kernel)
        refreshed(asking)
    else:
        asking.open(helper, LOADED)
    assert "NKI204" in errors(asking, helper)
