"""Findings in all files of a folder, pages of codes, progress and settings of folders, as an editor gets them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nki_lab import query
from tests.lsp.client import PULLING, Client, codes, connect
from tests.lsp.test_modules import HELPERS, KERNEL

EVERYTHING: dict[str, Any] = PULLING | {
    "workspace": {"configuration": True, "workspaceFolders": True},
    "window": {"showDocument": {"support": True}, "workDoneProgress": True},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "other.py").write_text("print(1)\n", encoding="utf-8")
    return tmp_path


def started(project: Path, configuration: list[Any]) -> Client:
    client = connect()
    client.replies["workspace/configuration"] = configuration
    client.replies["window/showDocument"] = {"success": True}
    folders = [{"uri": project.as_uri(), "name": "project"}]
    params = {"processId": None, "rootUri": None, "capabilities": EVERYTHING, "workspaceFolders": folders}
    client.request("initialize", params)
    client.notify("initialized", {})
    return client


@pytest.fixture
def client(project: Path) -> Iterator[Client]:
    client = started(project, [None, None])
    yield client
    assert client.leave() == 0


def errors(report: dict[str, Any]) -> list[str]:
    return codes([item for item in report["items"] if item["severity"] == 1])


def test_all_files_of_the_folder_are_examined(project: Path, client: Client) -> None:
    found = client.request("workspace/diagnostic", {"previousResultIds": [], "workDoneToken": "work"})["items"]
    reports = {item["uri"]: item for item in found}
    assert set(reports) == {(project / name).as_uri() for name in ("helpers.py", "kernel.py")}
    assert errors(reports[(project / "kernel.py").as_uri()]) == ["NKI203"]
    kinds = [item["params"]["value"]["kind"] for item in client.seen if item.get("method") == "$/progress"]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    before = [{"uri": uri, "value": item["resultId"]} for uri, item in reports.items()]
    (project / "helpers.py").write_text(HELPERS.replace("t[:, 0:32]", "t"), encoding="utf-8")
    found = client.request("workspace/diagnostic", {"previousResultIds": before})["items"]
    again = {item["uri"]: item for item in found}
    assert errors(again[(project / "kernel.py").as_uri()]) == []
    before = [{"uri": uri, "value": item["resultId"]} for uri, item in again.items()]
    found = client.request("workspace/diagnostic", {"previousResultIds": before})["items"]
    assert {item["kind"] for item in found} == {"unchanged"}


def test_the_page_of_a_code_is_opened(client: Client) -> None:
    number = client.ask("workspace/executeCommand", {"command": "nki-lab.explain", "arguments": ["NKI203"]})
    shown = client.receive(lambda item: item.get("method") == "window/showDocument")
    assert shown["params"]["uri"].endswith("NKI203.md")
    assert client.answer(number)["result"] == query.explain("NKI203")
    number = client.ask("workspace/executeCommand", {"command": "nki-lab.explain", "arguments": ["NKI9x9"]})
    message = client.receive(lambda item: item.get("method") == "window/showMessage")
    assert "NKI9x9" in message["params"]["message"]
    assert client.answer(number)["result"] is None


def test_a_folder_has_its_own_settings(project: Path) -> None:
    client = started(project, [{"target": "trn2"}, {"target": "trn9"}])
    message = client.receive(lambda item: item.get("method") == "workspace/configuration")
    assert message["params"]["items"][1]["scopeUri"] == project.as_uri()
    client.open((project / "kernel.py").as_uri(), KERNEL)
    said = client.receive(lambda item: item.get("method") == "window/logMessage")
    assert "trn9" in said["params"]["message"]
    assert client.leave() == 0


def test_actions_are_of_the_kinds_that_are_asked_for(project: Path, client: Client) -> None:
    uri = (project / "kernel.py").as_uri()
    client.open(uri, KERNEL)
    found = client.pulled(uri)["items"]
    params = {"textDocument": {"uri": uri}, "range": found[0]["range"]}

    def titles(only: list[str] | None) -> list[str]:
        context = {"diagnostics": found} | ({} if only is None else {"only": only})
        actions = client.request("textDocument/codeAction", params | {"context": context}) or []
        return [item["title"] for item in actions]

    assert any(title.startswith("Explain NKI203") for title in titles(None))
    assert titles(["quickfix"]) == titles(None)
    assert titles([""]) == titles(None)
    assert titles(["source.organizeImports"]) == titles(["refactor"]) == titles(["quickfix.other"]) == []
