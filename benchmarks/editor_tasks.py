"""Twenty tasks of a kernel author in an editor: which of them a language server answers.

    python -m benchmarks.editor_tasks ["NAME=COMMAND"]...

Each argument names one more server that speaks over standard input and output, to compare with: `"ruff=ruff server"`,
`"basedpyright=basedpyright-langserver --stdio"`. A server passes a task when its answer has what the author asked for.
Each starts anew, in the same small project.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.lsp.client import Client

HELPERS: Final = """import nki.isa as nisa
import nki.language as nl


def doubled(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=out, data=tile, op0=nl.multiply, operand0=2.0)
    return out
"""
KERNELS: Final = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

from helpers import doubled


@nki.jit
def product(lhs: nt.tensor[128, 64], rhs: nt.tensor[128, 512]):
    result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary = nl.ndarray(lhs.shape, dtype=lhs.dtype, buffer=nl.sbuf)
    moving = nl.ndarray(rhs.shape, dtype=rhs.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stationary, src=lhs)
    nisa.dma_copy(dst=moving, src=rhs)
    acc = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=stationary, moving=moving)
    copied = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=acc)
    nisa.dma_copy(dst=result, src=doubled(copied))
    return result
"""
SECONDS: Final = 20.0
CAPABILITIES: Final[dict[str, Any]] = {
    "textDocument": {
        "publishDiagnostics": {"relatedInformation": True},
        "completion": {"completionItem": {"documentationFormat": ["markdown"], "snippetSupport": False}},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "signatureHelp": {"signatureInformation": {"parameterInformation": {"labelOffsetSupport": False}}},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source"]}}},
        "callHierarchy": {},
        "inlayHint": {},
        "codeLens": {},
        "rename": {"prepareSupport": True},
    },
    "workspace": {"workspaceFolders": True, "configuration": True, "symbol": {}},
}


class Editor:
    """An author at a server in a project of two files."""

    def __init__(self, command: list[str], folder: Path) -> None:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self.client = Client(process.stdout, process.stdin, process)  # type: ignore[arg-type]
        self.client.replies["workspace/configuration"] = [{}] * 8
        self.uri, self.helpers = (folder / "kernels.py").as_uri(), (folder / "helpers.py").as_uri()
        self.text = ""
        self.before: set[tuple[int, str]] = set()
        roots = {"rootUri": folder.as_uri(), "workspaceFolders": [{"uri": folder.as_uri(), "name": "project"}]}
        self.client.request("initialize", {"processId": None, "capabilities": CAPABILITIES, **roots}, SECONDS)
        self.client.notify("initialized", {})
        self.client.open(self.helpers, HELPERS)
        self.client.open(self.uri, KERNELS)
        self.write(KERNELS)
        self.before = self.new

    def write(self, text: str) -> None:
        """Replace the text of the kernels' file, and wait until the server had time to read it."""
        self.text = text
        self.client.change(self.uri, text)
        self.found = self._findings()

    @property
    def new(self) -> set[tuple[int, str]]:
        """Lines and messages of the findings that the unchanged kernels do not have."""
        return {(item["range"]["start"]["line"], str(item["message"])) for item in self.found} - self.before

    def _findings(self) -> list[dict[str, Any]]:
        """Return the last findings that the server tells of the file before it is silent."""
        found, patience = [], 6.0
        while True:
            try:
                found, patience = self.client.published(self.uri, seconds=patience), 2.5
            except TimeoutError:
                return found

    def at(self, mark: str, **more: Any) -> dict[str, Any]:
        """Return the place of `|` in a piece of the text, as a request has it."""
        before, _, _ = mark.partition("|")
        start = self.text.index(mark.replace("|", "")) + len(before)
        line = self.text.count("\n", 0, start)
        character = start - (self.text.rfind("\n", 0, start) + 1)
        return {"textDocument": {"uri": self.uri}, "position": {"line": line, "character": character}, **more}

    def ask(self, method: str, params: Any) -> Any:
        """Return a result; None where the server refuses."""
        answer = self.client.answer(self.client.ask(method, params), SECONDS)
        return answer.get("result")

    def completed(self, mark: str) -> list[str]:
        """Return the labels of a completion."""
        found = self.ask("textDocument/completion", self.at(mark, context={"triggerKind": 1}))
        items = found.get("items", []) if isinstance(found, dict) else found or []
        return [str(item["label"]) for item in items]

    def everywhere(self) -> dict[str, Any]:
        """Return the whole file as a range."""
        end = {"line": self.text.count("\n"), "character": 0}
        return {"textDocument": {"uri": self.uri}, "range": {"start": {"line": 0, "character": 0}, "end": end}}


Task = Callable[[Editor], bool]
TASKS: Final[dict[str, Task]] = {}


def task(title: str) -> Callable[[Task], Task]:
    """Enter a task under its title."""

    def entered(function: Task) -> Task:
        TASKS[title] = function
        return function

    return entered


def typed(editor: Editor, line: str, after: str = "    nisa.tensor_copy(dst=copied, src=acc)\n") -> None:
    """Write one more line into the kernel."""
    editor.write(KERNELS.replace(after, f"{after}    {line}\n"))


@task("find an instruction by some letters")
def _(editor: Editor) -> bool:
    typed(editor, "nisa.nc_m")
    return any("nc_matmul" in item for item in editor.completed("    nisa.nc_m|\n"))


@task("see which keywords a call still needs")
def _(editor: Editor) -> bool:
    typed(editor, "nisa.nc_matmul(dst=acc, ")
    found = editor.completed("    nisa.nc_matmul(dst=acc, |\n")
    return any(item.startswith("stationary=") for item in found[:20]) and "dst=" not in found


@task("choose a memory where one is wanted")
def _(editor: Editor) -> bool:
    typed(editor, "more = nl.ndarray((64, 512), dtype=nl.float32, buffer=)")
    return any("psum" in item for item in editor.completed("dtype=nl.float32, buffer=|)"))


@task("list the attributes of a tile")
def _(editor: Editor) -> bool:
    typed(editor, "copied.")
    found = editor.completed("    copied.|\n")
    return any(item.startswith("shape") for item in found) and any(item.startswith("dtype") for item in found)


@task("see the parameter that is being typed")
def _(editor: Editor) -> bool:
    typed(editor, "nisa.nc_matmul(dst=acc, stationary=")
    found = editor.ask("textDocument/signatureHelp", editor.at("    nisa.nc_matmul(dst=acc, stationary=|\n"))
    if not found or not found.get("signatures"):
        return False
    chosen = found["signatures"][found.get("activeSignature") or 0]
    active = chosen.get("activeParameter", found.get("activeParameter"))
    label = chosen["parameters"][active]["label"] if active is not None else ""
    return "stationary" in (label if isinstance(label, str) else chosen["label"][label[0] : label[1]])


@task("read what an instruction takes, and its limits")
def _(editor: Editor) -> bool:
    text = json.dumps(editor.ask("textDocument/hover", editor.at("nisa.nc_mat|mul(")) or "")
    return "stationary" in text and "512" in text


@task("see the shape and memory of a tile")
def _(editor: Editor) -> bool:
    text = json.dumps(editor.ask("textDocument/hover", editor.at("    ac|c = nl.ndarray")) or "")
    return "512" in text and "psum" in text.casefold()


@task("see shapes beside the lines")
def _(editor: Editor) -> bool:
    return "512" in json.dumps(editor.ask("textDocument/inlayHint", editor.everywhere()) or "")


@task("jump to a helper in another file")
def _(editor: Editor) -> bool:
    return "helpers.py" in json.dumps(editor.ask("textDocument/definition", editor.at("src=doub|led(")) or "")


@task("jump to the declaration of an instruction")
def _(editor: Editor) -> bool:
    return "nki" in json.dumps(editor.ask("textDocument/definition", editor.at("nisa.nc_mat|mul(")) or "")


@task("find the uses of a helper")
def _(editor: Editor) -> bool:
    editor.text = KERNELS
    found = editor.ask("textDocument/references", editor.at("src=doub|led(", context={"includeDeclaration": True}))
    return {"kernels.py", "helpers.py"} <= {item["uri"].rpartition("/")[2] for item in found or []}


@task("rename a tile")
def _(editor: Editor) -> bool:
    found = json.dumps(editor.ask("textDocument/rename", editor.at("    mov|ing = nl", newName="rows")) or "")
    return found.count('"rows"') == 3  # the keyword argument of the same name stays


@task("be kept from a rename that changes the program")
def _(editor: Editor) -> bool:
    answer = editor.client.answer(
        editor.client.ask("textDocument/rename", editor.at("    mov|ing = nl", newName="stationary")), SECONDS
    )
    return "already" in json.dumps(answer.get("error", "")) or "bound" in json.dumps(answer.get("error", ""))


@task("see the tensors of a kernel in the outline")
def _(editor: Editor) -> bool:
    found = json.dumps(editor.ask("textDocument/documentSymbol", {"textDocument": {"uri": editor.uri}}) or "")
    return '"stationary"' in found and "128" in found


@task("find the callers of a helper, with the shapes they pass")
def _(editor: Editor) -> bool:
    found = editor.ask("textDocument/prepareCallHierarchy", editor.at("src=doub|led("))
    callers = editor.ask("callHierarchy/incomingCalls", {"item": found[0]}) if found else None
    return "512" in json.dumps(callers or "")


@task("learn that a product goes to the wrong memory")
def _(editor: Editor) -> bool:
    editor.write(KERNELS.replace("buffer=nl.psum", "buffer=nl.sbuf"))
    return 16 in {line for line, _ in editor.new}


@task("learn that a tile has too many partitions")
def _(editor: Editor) -> bool:
    editor.write(KERNELS.replace("copied = nl.ndarray((64, 512)", "copied = nl.ndarray((640, 512)"))
    return bool({17, 18} & {line for line, _ in editor.new})


@task("have a misspelt name mended")
def _(editor: Editor) -> bool:
    editor.write(KERNELS.replace("nisa.tensor_copy(dst=copied", "nisa.tensor_cpy(dst=copied"))
    asked = {**editor.everywhere(), "context": {"diagnostics": editor.found}}
    return "tensor_copy" in json.dumps(editor.ask("textDocument/codeAction", asked) or "")


@task("type a line without false alarms elsewhere")
def _(editor: Editor) -> bool:
    typed(editor, "nisa.nc_matmul(dst=acc, stationary=stationary, moving=")
    return {line for line, _ in editor.new} <= {19, 20}  # the line itself and the next, which it may run into


@task("see the latency and memory of a kernel")
def _(editor: Editor) -> bool:
    lenses = editor.ask("textDocument/codeLens", {"textDocument": {"uri": editor.uri}}) or []
    whole = [item if item.get("command") else editor.ask("codeLens/resolve", item) for item in lenses]
    return "SBUF" in json.dumps(whole, ensure_ascii=False) and "µs" in json.dumps(whole, ensure_ascii=False)


def results(command: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each task with yes, no, or how the server failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for file, text in (("kernels.py", KERNELS), ("helpers.py", HELPERS)):
            (folder / file).write_text(text, encoding="utf-8")
        (folder / "pyproject.toml").write_text('[tool.nki-lab]\ntarget = "trn2"\n', encoding="utf-8")
        editor = Editor(command, folder)
        for title, function in TASKS.items():
            if editor.text != KERNELS:
                editor.write(KERNELS)
            try:
                yield title, "yes" if function(editor) else "no"
            except (TimeoutError, KeyError, IndexError, TypeError) as error:
                yield title, type(error).__name__
        editor.client.process.kill()
        editor.client.close()


def main(arguments: list[str]) -> int:
    """Print a table in Markdown."""
    commands = {"nki_lab": [sys.executable, "-P", "-m", "nki_lab.lsp"]}
    for argument in arguments:
        name, _, command = argument.partition("=")
        commands[name] = shlex.split(command)
    columns = {name: dict(results(command)) for name, command in commands.items()}
    print("| task |", " | ".join(columns), "|")
    print("|-|" + "-|" * len(columns))
    for title in TASKS:
        print(f"| {title} |", " | ".join(column[title] for column in columns.values()), "|")
    print("| **of 20** |", " | ".join(str(list(column.values()).count("yes")) for column in columns.values()), "|")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
