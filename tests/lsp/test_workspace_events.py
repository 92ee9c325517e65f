"""Folders, settings and files that change while the server runs, and what an editor is told of long work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import PULLING, codes, connect
from tests.lsp.test_modules import HELPERS, KERNEL
from tests.lsp.test_server import VERY_SLOW

pytestmark = pytest.mark.extended

RIGHT = HELPERS.replace("t[:, 0:32]", "t")
ABLE: dict[str, Any] = PULLING | {
    "workspace": {"configuration": True, "workspaceFolders": True, "diagnostics": {"refreshSupport": True}},
    "window": {"workDoneProgress": True},
}
TARGETED = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x: nki.typing.tensor[128, 64]):
    t = nl.ndarray((128, 64), nl.float8_e5m2_x4, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return x
"""


class Editor:
    """An editor with folders, which answers questions about settings by folder."""

    def __init__(self, *folders: Path, capabilities: dict[str, Any] = ABLE, steps: int = 600_000) -> None:
        self.client = connect()
        self.settings: dict[str, Any] = {}
        self.client.replies["workspace/configuration"] = self._configuration
        items = [self.folder(item) for item in folders]
        params = {"processId": None, "rootUri": None, "capabilities": capabilities, "workspaceFolders": items,
                  "initializationOptions": {"steps": steps}}  # fmt: skip
        self.client.request("initialize", params)
        self.client.notify("initialized", {})

    def _configuration(self, params: dict[str, Any]) -> list[Any]:
        return [self.settings.get(item.get("scopeUri", "")) for item in params["items"]]

    @staticmethod
    def folder(path: Path) -> dict[str, str]:
        return {"uri": path.as_uri(), "name": path.name}

    def folders(self, *, added: list[Path] | None = None, removed: list[Path] | None = None) -> None:
        event = {
            "added": [self.folder(item) for item in added or []],
            "removed": [self.folder(item) for item in removed or []],
        }
        self.client.notify("workspace/didChangeWorkspaceFolders", {"event": event})

    def all(self, **more: Any) -> dict[str, list[str]]:
        """The codes of the errors in all files, by their paths below the common folder."""
        reports = self.client.request("workspace/diagnostic", {"previousResultIds": []} | more)["items"]
        return {item["uri"]: errors(item) for item in reports}

    def errors(self, uri: str) -> list[str]:
        return errors(self.client.pulled(uri))

    def asked_again(self) -> None:
        self.client.receive(lambda item: item.get("method") == "workspace/diagnostic/refresh")


def errors(report: dict[str, Any]) -> list[str]:
    return codes([item for item in report["items"] if item["severity"] == 1])


def project(folder: Path, *, target: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    text = f'[tool.nki-lab]\ntarget = "{target}"\n' if target else ""
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    (folder / "helpers.py").write_text(HELPERS, encoding="utf-8")
    (folder / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return folder


@pytest.fixture
def editors() -> Iterator[list[Editor]]:
    made: list[Editor] = []
    yield made
    for item in made:
        assert item.client.leave() == 0


# -- all files ---------------------------------------------------------------------------------------------------------


def test_partial_results_come_file_by_file_and_the_answer_waits_for_changes(
    tmp_path: Path, editors: list[Editor]
) -> None:
    folder = project(tmp_path / "one")
    editors.append(Editor(folder))
    client = editors[0].client
    answer = client.request("workspace/diagnostic", {"previousResultIds": [], "partialResultToken": "part"})
    assert answer["items"] == []
    parts = [item["params"]["value"]["items"] for item in client.seen if item.get("method") == "$/progress"]
    assert [len(part) for part in parts] == [1, 1]
    reports = {part[0]["uri"]: part[0] for part in parts}
    assert errors(reports[(folder / "kernel.py").as_uri()]) == ["NKI203"]
    known = [{"uri": uri, "value": item["resultId"]} for uri, item in reports.items()]
    number = client.ask("workspace/diagnostic", {"previousResultIds": known, "partialResultToken": "more"})
    with pytest.raises(TimeoutError):
        client.answer(number, 1.5)
    client.seen.clear()
    (folder / "helpers.py").write_text(RIGHT, encoding="utf-8")
    client.notify(
        "workspace/didChangeWatchedFiles", {"changes": [{"uri": (folder / "helpers.py").as_uri(), "type": 2}]}
    )
    assert client.answer(number)["result"]["items"] == []
    told = [item["params"] for item in client.seen if item.get("method") == "$/progress"]
    assert {item["token"] for item in told} == {"more"}
    assert [errors(part) for item in told for part in item["value"]["items"] if part["uri"].endswith("kernel.py")] == [
        []
    ]


def test_progress_of_all_files_is_told_with_the_editor_s_token(tmp_path: Path, editors: list[Editor]) -> None:
    editors.append(Editor(project(tmp_path / "one")))
    editors[0].all(workDoneToken="work")
    told = [item["params"] for item in editors[0].client.seen if item.get("method") == "$/progress"]
    assert {item["token"] for item in told} == {"work"}
    kinds = [item["value"]["kind"] for item in told]
    assert kinds == ["begin", "report", "report", "end"]
    percentages = [item["value"]["percentage"] for item in told[:-1]]
    assert percentages == sorted(percentages)


@pytest.mark.extended
def test_progress_of_a_long_evaluation_has_a_token_of_the_server_s(editors: list[Editor]) -> None:
    editors.append(Editor(steps=200_000_000))
    client = editors[0].client
    client.open("file:///slow.py", VERY_SLOW)
    created = client.receive(lambda item: item.get("method") == "window/workDoneProgress/create")
    token = created["params"]["token"]
    client.receive(lambda item: item.get("method") == "$/progress" and item["params"]["value"]["kind"] == "end")
    told = [item["params"] for item in client.seen if item.get("method") == "$/progress"]
    assert {item["token"] for item in told} == {token}
    assert told[0]["value"]["kind"] == "begin"
    assert "slow.py" in told[0]["value"]["title"]


def test_without_progress_in_the_window_none_is_made(editors: list[Editor]) -> None:
    editors.append(Editor(capabilities=PULLING, steps=200_000_000))
    client = editors[0].client
    client.open("file:///slow.py", VERY_SLOW)
    with pytest.raises(TimeoutError):
        client.receive(lambda item: item.get("method", "").endswith(("create", "progress")), 3)


# -- folders and settings ----------------------------------------------------------------------------------------------


def test_folders_come_and_go(tmp_path: Path, editors: list[Editor]) -> None:
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    editors.append(Editor(one))
    names = {(folder / name).as_uri() for folder in (one, two) for name in ("kernel.py", "helpers.py")}
    of_one = {(one / name).as_uri() for name in ("kernel.py", "helpers.py")}
    assert set(editors[0].all()) == of_one
    editors[0].folders(added=[two])
    assert set(editors[0].all()) == names
    editors[0].folders(removed=[two])
    assert set(editors[0].all()) == of_one


def test_a_folder_that_goes_takes_its_findings_along(tmp_path: Path, editors: list[Editor]) -> None:
    one = project(tmp_path / "one")
    editors.append(Editor(one))
    reports = editors[0].client.request("workspace/diagnostic", {"previousResultIds": []})["items"]
    known = [{"uri": item["uri"], "value": item["resultId"]} for item in reports]
    editors[0].folders(removed=[one])
    later = editors[0].client.request("workspace/diagnostic", {"previousResultIds": known})["items"]
    assert {item["uri"] for item in later} <= {item["uri"] for item in known}
    assert {Path(item["uri"]).name for item in later} >= {"kernel.py"}
    assert all(item["items"] == [] for item in later)


def test_each_folder_has_its_target(tmp_path: Path, editors: list[Editor]) -> None:
    """The project's own, unless the editor's settings of the folder say otherwise."""
    one, two = project(tmp_path / "one", target="trn2"), project(tmp_path / "two", target="trn3")
    for folder in (one, two):
        (folder / "kernel.py").write_text(TARGETED, encoding="utf-8")
    editors.append(Editor(one, two))
    uris = [(folder / "kernel.py").as_uri() for folder in (one, two)]
    found = editors[0].all()
    on_trn2, on_trn3 = (found[uri] for uri in uris)
    assert on_trn2 != on_trn3
    for uri in uris:
        editors[0].client.open(uri, TARGETED)
    assert [editors[0].errors(uri) for uri in uris] == [on_trn2, on_trn3]
    editors[0].settings = {one.as_uri(): {"target": "trn3"}, two.as_uri(): {"target": "trn2"}}
    editors[0].client.notify("workspace/didChangeConfiguration", {"settings": None})
    editors[0].asked_again()
    assert [editors[0].errors(uri) for uri in uris] == [on_trn3, on_trn2]


def test_settings_that_come_along_take_effect_at_once(tmp_path: Path, editors: list[Editor]) -> None:
    editors.append(Editor(project(tmp_path / "one"), capabilities=PULLING))
    uri = "file:///nowhere/kernel.py"
    editors[0].client.open(uri, TARGETED)
    before = editors[0].errors(uri)
    editors[0].client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"target": "trn2"}}})
    after = editors[0].errors(uri)
    assert after != before
    editors[0].client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"target": "trn3"}}})
    assert editors[0].errors(uri) == before


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_helper_counts_unsaved_saved_renamed_and_deleted(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path / "one")
    editors.append(Editor(folder))
    editor, client = editors[0], editors[0].client
    kernel, helper = ((folder / name).as_uri() for name in ("kernel.py", "helpers.py"))
    client.open(kernel, KERNEL)
    assert editor.errors(kernel) == ["NKI203"]

    client.open(helper, HELPERS)
    client.change(helper, RIGHT)  # not saved
    editor.asked_again()
    assert editor.errors(kernel) == []
    assert editor.all()[kernel] == []
    client.shut(helper)  # thrown away
    editor.asked_again()
    assert editor.errors(kernel) == ["NKI203"]

    def watched(*changes: tuple[str, int]) -> None:
        found = [{"uri": (folder / name).as_uri(), "type": kind} for name, kind in changes]
        client.notify("workspace/didChangeWatchedFiles", {"changes": found})

    (folder / "helpers.py").write_text(RIGHT, encoding="utf-8")
    watched(("helpers.py", 2))
    assert editor.errors(kernel) == []
    (folder / "helpers.py").rename(folder / "others.py")
    watched(("helpers.py", 3), ("others.py", 1))
    missing = editor.all()
    assert (folder / "others.py").as_uri() in missing
    assert helper not in missing
    (folder / "helpers.py").write_text(HELPERS, encoding="utf-8")
    watched(("helpers.py", 1))
    assert editor.errors(kernel) == ["NKI203"]
    (folder / "helpers.py").unlink()
    watched(("helpers.py", 3))
    assert "NKI203" not in editor.errors(kernel)


def test_loops_of_links_and_odd_files_end(tmp_path: Path, editors: list[Editor]) -> None:
    folder = project(tmp_path / "one")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "self.py").symlink_to(folder / "self.py")
    (folder / "other.py").symlink_to(folder / "kernel.py")
    (folder / "gone.py").symlink_to(folder / "nothing.py")
    (folder / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nimport nki\n# \xe9\n")
    (folder / "bytes.py").write_bytes(b"import nki\n# \xff\xfe\n@nki.jit\ndef k(x):\n    return x\n")
    (folder / "mixed.py").write_bytes(KERNEL.encode().replace(b"\n", b"\r\n", 3).replace(b"t)\n", b"t)\r"))
    (folder / "folder.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    editors.append(Editor(folder))
    found = {Path(uri).name: value for uri, value in editors[0].all().items()}
    assert found["mixed.py"] == ["NKI203"]
    assert "latin.py" in found
    assert len({"kernel.py", "other.py"} & set(found)) == 1
    assert not {"self.py", "gone.py", "folder.py", "pipe.py"} & set(found)


@pytest.mark.parametrize("unit", ["utf-8", "utf-16", "utf-32"])
def test_emoji_before_every_place_move_it_by_its_units(tmp_path: Path, editors: list[Editor], unit: str) -> None:
    capabilities = ABLE | {"general": {"positionEncodings": [unit]}}
    editors.append(Editor(tmp_path, capabilities=capabilities))
    client = editors[0].client
    lines = ["    narrowed(t)" if "narrowed(t)" in line else line for line in KERNEL.split("\n")]
    text = "\n".join(f"    '😀é'; {line.strip()}" if line.startswith("    ") else line for line in lines)
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    uri = (tmp_path / "kernel.py").as_uri()
    client.open(uri, text)
    (found,) = [item for item in client.pulled(uri)["items"] if item["severity"] == 1]
    size = {"utf-8": 6, "utf-16": 3, "utf-32": 2}[unit]
    assert found["range"]["start"]["character"] == 4 + 2 + size + 2
    place = {"textDocument": {"uri": uri}, "position": found["range"]["start"]}
    assert client.request("textDocument/definition", place)
    for line in range(text.count("\n")):  # a place inside a character too
        for character in (0, 6, 7, 9, 999):
            position = {"line": line, "character": character}
            client.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})
