"""Everything that the server offers is exercised by a real client: an offer that no test here covers is a failure.

Tests take the offered values from the server's own list, so that a new trigger, kind or command is tested too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nki_lab.lsp.handshake import FILE
from tests.lsp.client import codes, connect, edited
from tests.lsp.test_modules import HELPERS
from tests.lsp.test_notebook import Notebook
from tests.lsp.test_semantic_tokens import decoded
from tests.lsp.test_server import BETA1

OFFERS: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["capabilities"]
COVERED: set[str] = set()
T = TypeVar("T", bound=Callable[..., None])

EVERYTHING: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "notebookDocument": {"synchronization": {}},
    "textDocument": {
        "diagnostic": {"relatedInformation": True, "codeDescriptionSupport": True},
        "rename": {"prepareSupport": True},
        "completion": {"completionItem": {"snippetSupport": True, "labelDetailsSupport": True}},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "codeAction": {"resolveSupport": {"properties": ["edit"]}},
    },
    "workspace": {
        "workspaceFolders": True,
        "fileOperations": {"didCreate": True, "didRename": True, "didDelete": True},
        "diagnostics": {"refreshSupport": True},
    },
}
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

from helpers import narrowed


@nki.jit
def kernel(x: nt.tensor[128, 64], pads=[1]):
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    s = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    r = nisa.register_alloc(2)
    nisa.dma_copy(dst=t, src=x, dge_mode=3)
    nisa.nc_matmul(dst=s, stationary=t, moving=t)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.tensor_copy(dst=t, src=t, engine=nisa.engine.vector)
    nisa.iota(dst=t, pattern=[[1, 64]], offset=0)
    nisa.register_load(dst=r, src=t[0:1, 0:1])
    narrowed(t)
    return helper(x, nisa.dge_mode.none)


def helper(x, mode: nl.tile_size = None):
    return x
"""


def leaves(table: object, path: str = "") -> Iterator[str]:
    """The offers, by their paths in the file: values of lists by themselves."""
    if isinstance(table, dict) and table:
        for key, value in table.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(table, list):
        for item in table:
            yield from leaves(item, path) if isinstance(item, dict) else [f"{path}={item}"]
    else:
        yield path


def covers(*patterns: str) -> Callable[[T], T]:
    """Say which offers a test exercises."""

    def marked(test: T) -> T:
        for pattern in patterns:
            found = {leaf for leaf in leaves(OFFERS) if fnmatchcase(leaf, pattern)}
            assert found, f"{test.__name__} covers {pattern}, which is not offered"
            COVERED.update(found)
        return test

    return marked


class Project:
    """A kernel that is open, and its helper, which is not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pyproject.toml").write_text("", encoding="utf-8")
        (folder / "helpers.py").write_text(HELPERS, encoding="utf-8")
        (folder / "kernel.py").write_text(KERNEL, encoding="utf-8")
        self.uri = (folder / "kernel.py").as_uri()
        self.client = connect()
        folders = [{"uri": folder.as_uri(), "name": "project"}]
        params = {"processId": None, "rootUri": None, "capabilities": EVERYTHING, "workspaceFolders": folders}
        self.offered = self.client.request("initialize", params)["capabilities"]
        self.client.notify("initialized", {})
        self.client.open(self.uri, KERNEL)
        self.client.pulled(self.uri)

    def place(self, text: str, line: str = "", after: str = "") -> dict[str, Any]:
        lines = KERNEL.split("\n")
        number = next(i for i, item in enumerate(lines) if (line or text) in item)
        position = {"line": number, "character": lines[number].index(text) + len(after)}
        return {"textDocument": {"uri": self.uri}, "position": position}

    def at(self, method: str, text: str, line: str = "", after: str = "", **more: Any) -> Any:
        return self.client.request(f"textDocument/{method}", self.place(text, line, after) | more)

    def about(self, method: str, **more: Any) -> Any:
        return self.client.request(f"textDocument/{method}", {"textDocument": {"uri": self.uri}} | more)

    def typed(self, uri: str, line: str) -> dict[str, Any]:
        """The place behind a half-typed line in a new text."""
        text = KERNEL.replace("    narrowed(t)\n", f"{line}\n")
        self.client.open(uri, text)
        number = text.split("\n").index(line)
        return {"textDocument": {"uri": uri}, "position": {"line": number, "character": len(line)}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("project"))
    yield made
    assert made.client.leave() == 0


WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}


def names(places: Any) -> set[str]:
    return {Path(item["uri"]).name for item in (places if isinstance(places, list) else [places])}


@covers("positionEncoding")
def test_an_editor_that_can_do_everything_is_offered_everything(project: Project) -> None:
    assert project.offered == OFFERS


# -- texts -------------------------------------------------------------------------------------------------------------


@covers("textDocumentSync.*")
def test_texts_are_opened_changed_saved_and_closed(project: Project, uri: str) -> None:
    client = project.client
    client.open(uri, KERNEL)
    assert "NKI606" in codes(client.pulled(uri)["items"])
    line = KERNEL.split("\n").index("    nisa.dma_copy(dst=t, src=x, dge_mode=3)")
    client.change(uri, (line, 0, line + 1, 0, ""))
    client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert "NKI606" not in codes(client.pulled(uri)["items"])
    client.shut(uri)
    assert client.pulled(uri)["items"] == []


@covers("notebookDocumentSync.*")
def test_cells_are_checked_together(project: Project) -> None:
    notebook = Notebook(
        project.client, "advertised", KERNEL.partition("@nki")[0], "%%nki\n@nki" + KERNEL.partition("@nki")[2]
    )
    assert "NKI606" in codes(project.client.pulled(notebook.cell(1))["items"])
    notebook.type(1, "%%nki\n1")
    assert project.client.pulled(notebook.cell(1))["items"] == []
    notebook.close(0, 1)


# -- findings ----------------------------------------------------------------------------------------------------------


@covers("diagnosticProvider.*")
def test_findings_are_asked_for(project: Project) -> None:
    found = codes(project.client.pulled(project.uri, identifier=OFFERS["diagnosticProvider"]["identifier"])["items"])
    assert {"NKI606", "NKI114"} <= set(found)
    reports = project.client.request("workspace/diagnostic", {"previousResultIds": []})["items"]
    assert {Path(item["uri"]).name for item in reports} == {"kernel.py", "helpers.py"}


@covers("diagnosticProvider.interFileDependencies")
def test_a_helper_that_is_edited_changes_the_findings(project: Project) -> None:
    helper = (project.folder / "helpers.py").as_uri()
    assert "NKI203" in codes(project.client.pulled(project.uri)["items"])
    project.client.open(helper, HELPERS.replace("t[:, 0:32]", "t"))
    project.client.receive(lambda item: item.get("method") == "workspace/diagnostic/refresh")
    assert "NKI203" not in codes(project.client.pulled(project.uri)["items"])
    project.client.shut(helper)
    project.client.receive(lambda item: item.get("method") == "workspace/diagnostic/refresh")
    assert "NKI203" in codes(project.client.pulled(project.uri)["items"])


@covers("codeActionProvider.*")
def test_all_kinds_of_actions_are_given_and_resolved(project: Project, uri: str) -> None:
    client, kinds = project.client, set()
    client.open(uri, BETA1)
    for text, known in ((uri, BETA1), (project.uri, KERNEL)):
        found = client.pulled(text)["items"]
        params = {"textDocument": {"uri": text}, "range": WHOLE, "context": {"diagnostics": found}}
        for action in client.request("textDocument/codeAction", params):
            kinds.add(action["kind"])
            if action["kind"].startswith("source"):
                assert edited(known, client.request("codeAction/resolve", action)["edit"]["changes"][text]) != known
    assert kinds == set(OFFERS["codeActionProvider"]["codeActionKinds"])


@covers("codeLensProvider.*")
def test_lenses_are_given_and_resolved(project: Project, uri: str) -> None:
    text = f"{KERNEL.partition('@nki')[0]}@nki.jit\ndef kernel(x: nt.tensor[128, 64]):\n    return nl.exp(nl.load(x))\n"
    project.client.open(uri, text)
    project.client.pulled(uri)
    lenses = project.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert {item["data"]["kernel"] for item in lenses} == {"kernel"}
    resolved = [project.client.request("codeLens/resolve", item)["command"]["title"] for item in lenses]
    assert len(resolved) == 4
    assert "run" in resolved[0]
    assert resolved[1]


@pytest.mark.parametrize("command", OFFERS["executeCommandProvider"]["commands"])
@covers("executeCommandProvider.commands=*")
def test_commands_are_executed(project: Project, command: str) -> None:
    arguments: dict[str, list[Any]] = {
        "nki-lab.explain": ["NKI201"],
        "nki-lab.cell": [project.uri, "kernel", {"show": False}],
        "nki-lab.targets": [project.uri],
        "nki-lab.target": [project.uri],
    }
    params = {"command": command, "arguments": arguments[command]}
    assert project.client.request("workspace/executeCommand", params)


# -- while one types ---------------------------------------------------------------------------------------------------

TYPED = {
    ".": "    nisa.", "(": "    nisa.dma_copy(", ",": "    nisa.dma_copy(dst=t,", "=": "    nisa.dma_copy(dst=",
    " ": "    from ", ")": "    nisa.dma_copy(dst=(t)",
}  # fmt: skip


@pytest.mark.parametrize("trigger", OFFERS["completionProvider"]["triggerCharacters"])
@covers("completionProvider.triggerCharacters=*")
def test_completion_comes_with_its_triggers(project: Project, uri: str, trigger: str) -> None:
    params = project.typed(uri, TYPED[trigger])
    context = {"triggerKind": 2, "triggerCharacter": trigger}
    found = project.client.request("textDocument/completion", params | {"context": context})
    assert found["items"] if isinstance(found, dict) else found


@covers("completionProvider.resolveProvider", "completionProvider.completionItem.labelDetailsSupport")
def test_completion_is_resolved(project: Project, uri: str) -> None:
    found = project.client.request("textDocument/completion", project.typed(uri, "    nisa.nc_mat"))
    items = found["items"] if isinstance(found, dict) else found
    item = next(item for item in items if item["label"] == "nc_matmul")
    assert item["labelDetails"]["description"] == "Tensor Engine"
    assert "Limits" in project.client.request("completionItem/resolve", item)["documentation"]["value"]


@pytest.mark.parametrize("trigger", [*OFFERS["signatureHelpProvider"]["triggerCharacters"], ""])
@covers("signatureHelpProvider.triggerCharacters=*")
def test_signatures_come_with_their_triggers(project: Project, uri: str, trigger: str) -> None:
    context = {"triggerKind": 2 if trigger else 1, "isRetrigger": False} | (
        {"triggerCharacter": trigger} if trigger else {}
    )
    params = project.typed(uri, TYPED[trigger or "("]) | {"context": context}
    assert "dma_copy" in project.client.request("textDocument/signatureHelp", params)["signatures"][0]["label"]


@pytest.mark.parametrize("trigger", OFFERS["signatureHelpProvider"]["retriggerCharacters"])
@covers("signatureHelpProvider.retriggerCharacters=*")
def test_signatures_follow_what_is_typed(project: Project, uri: str, trigger: str) -> None:
    shown = {"signatures": [{"label": "dma_copy(dst, src)"}], "activeSignature": 0, "activeParameter": 0}
    context = {"triggerKind": 2, "triggerCharacter": trigger, "isRetrigger": True, "activeSignatureHelp": shown}
    params = project.typed(uri, TYPED[trigger]) | {"context": context}
    assert "dma_copy" in project.client.request("textDocument/signatureHelp", params)["signatures"][0]["label"]


@covers("hoverProvider")
def test_hovers_tell_shapes(project: Project) -> None:
    assert "(128, 64)" in project.at("hover", "t", "t = nl")["contents"]["value"]


@covers("inlayHintProvider.resolveProvider")
def test_hints_are_whole_at_once(project: Project) -> None:
    assert OFFERS["inlayHintProvider"]["resolveProvider"] is False
    hints = project.about("inlayHint", range=WHOLE)
    assert hints and all(item["label"] for item in hints)


# -- finding one's way -------------------------------------------------------------------------------------------------


@covers("definitionProvider")
def test_definitions_are_found(project: Project) -> None:
    assert names(project.at("definition", "narrowed", "narrowed(t)")) == {"helpers.py"}


@covers("declarationProvider")
def test_declarations_are_found(project: Project) -> None:
    assert names(project.at("declaration", "narrowed", "narrowed(t)")) == {"kernel.py"}


@covers("typeDefinitionProvider")
def test_type_definitions_are_found(project: Project, uri: str) -> None:
    text = "import nki\n\n\nclass Box:\n    pass\n\n\ndef f():\n    made = Box()\n    return made\n"
    project.client.open(uri, text)
    params = {"textDocument": {"uri": uri}, "position": {"line": 8, "character": 5}}
    found = project.client.request("textDocument/typeDefinition", params)
    assert [item["range"]["start"]["line"] for item in (found if isinstance(found, list) else [found])] == [3]


@covers("referencesProvider")
def test_references_are_found(project: Project) -> None:
    found = project.at("references", "narrowed", "narrowed(t)", context={"includeDeclaration": True})
    assert names(found) == {"helpers.py", "kernel.py"}


@covers("documentHighlightProvider")
def test_highlights_are_found(project: Project) -> None:
    assert len(project.at("documentHighlight", "narrowed", "narrowed(t)")) == 2


@covers("documentSymbolProvider.label")
def test_symbols_of_a_text_are_listed(project: Project) -> None:
    assert {"kernel", "helper"} <= {item["name"] for item in project.about("documentSymbol")}


@covers("workspaceSymbolProvider.resolveProvider")
def test_symbols_of_the_workspace_are_whole_at_once(project: Project) -> None:
    assert OFFERS["workspaceSymbolProvider"]["resolveProvider"] is False
    found = project.client.request("workspace/symbol", {"query": "narrow"})
    assert [(item["name"], Path(item["location"]["uri"]).name) for item in found] == [("narrowed", "helpers.py")]
    assert "range" in found[0]["location"]


@covers("renameProvider.prepareProvider")
def test_names_are_changed(project: Project) -> None:
    assert project.at("prepareRename", "narrowed", "narrowed(t)")
    made = project.at("rename", "narrowed", "narrowed(t)", newName="cut")
    assert {Path(uri).name for uri in made["changes"]} == {"helpers.py", "kernel.py"}


@covers("callHierarchyProvider")
def test_calls_are_followed(project: Project) -> None:
    (item,) = project.at("prepareCallHierarchy", "narrowed", "narrowed(t)")
    callers = project.client.request("callHierarchy/incomingCalls", {"item": item})
    assert [call["from"]["name"] for call in callers] == ["kernel"]
    (item,) = project.at("prepareCallHierarchy", "kernel", "def kernel")
    called = project.client.request("callHierarchy/outgoingCalls", {"item": item})
    assert {"narrowed", "helper"} <= {call["to"]["name"] for call in called}


@covers("foldingRangeProvider")
def test_folds_are_given(project: Project) -> None:
    start = KERNEL.split("\n").index("def kernel(x: nt.tensor[128, 64], pads=[1]):")
    assert start in {item["startLine"] for item in project.about("foldingRange")}


@covers("selectionRangeProvider")
def test_selections_grow(project: Project) -> None:
    (found,) = project.about("selectionRange", positions=[project.place("narrowed", "narrowed(t)")["position"]])
    assert found["parent"]


@covers("semanticTokensProvider.*")
def test_all_types_and_modifiers_of_names_occur(project: Project) -> None:
    made = project.about("semanticTokens/full")
    legend = OFFERS["semanticTokensProvider"]["legend"]
    kinds = [kind.split() for _, _, kind in decoded(made["data"], KERNEL, legend)]
    assert {kind for kind, *_ in kinds} == set(legend["tokenTypes"])
    assert {item for _, *modifiers in kinds for item in modifiers} == set(legend["tokenModifiers"])
    assert project.about("semanticTokens/full/delta", previousResultId=made["resultId"])["edits"] == []
    assert project.about("semanticTokens/range", range=WHOLE)["data"] == made["data"]


# -- the workspace -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", list(OFFERS["workspace"]["fileOperations"]))
@covers("workspace.fileOperations.*")
def test_files_that_the_editor_creates_renames_and_deletes_count(tmp_path: Path, event: str) -> None:
    helper, away = tmp_path / "helpers.py", tmp_path / "away.py"
    project = Project(tmp_path)
    wrong = "NKI203"
    if event == "didCreate":
        helper.rename(away)
        files: list[dict[str, str]] = [{"uri": helper.as_uri()}]
    else:
        files = [{"uri": helper.as_uri()}]
    if event == "didCreate":
        project.client.notify("workspace/didDeleteFiles", {"files": files})
        assert wrong not in codes(project.client.pulled(project.uri)["items"])
        away.rename(helper)
        project.client.notify("workspace/didCreateFiles", {"files": files})
        assert wrong in codes(project.client.pulled(project.uri)["items"])
    else:
        assert wrong in codes(project.client.pulled(project.uri)["items"])
        helper.rename(away)
        renamed = [{"oldUri": helper.as_uri(), "newUri": away.as_uri()}]
        method = {"didRename": "didRenameFiles", "didDelete": "didDeleteFiles"}[event]
        project.client.notify(f"workspace/{method}", {"files": renamed if event == "didRename" else files})
        assert wrong not in codes(project.client.pulled(project.uri)["items"])
    assert project.client.leave() == 0


@covers("workspace.workspaceFolders.*")
def test_folders_come_and_go(project: Project, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "more.py").write_text(HELPERS, encoding="utf-8")
    folder = {"uri": tmp_path.as_uri(), "name": "more"}

    def files() -> set[str]:
        reports = project.client.request("workspace/diagnostic", {"previousResultIds": []})["items"]
        return {Path(item["uri"]).name for item in reports}

    for event, expected in (({"added": [folder], "removed": []}, True), ({"added": [], "removed": [folder]}, False)):
        project.client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        assert ("more.py" in files()) is expected


def test_every_offer_is_exercised() -> None:
    assert set(leaves(OFFERS)) - COVERED == set()
