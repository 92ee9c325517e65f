"""A day of typing: after thousands of random edits the findings are a fresh server's, and memory stays bounded."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.modules import module
from tests.lsp.client import PULLING, Client, Message, connect
from tests.lsp.processes import resident_bytes
from tests.scale import scaled

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patience")]

KERNELS = Path(__file__).parents[1] / "kernels"
EDITS = scaled(10_000)
COMPARED = 500
"""After so many edits the findings are compared with those of a fresh server."""
MOST_BYTES = 300 << 20
LARGE_EDITS = scaled(2_000)
SETTLED = LARGE_EDITS // 2
"""Edits after which everything that is remembered has been remembered once."""
MOST_GROWTH = 12 << 20
"""Bytes that a thousand further edits may add."""
DEPTH = 14
"""Edits that are not taken back: with more of them nothing of the module would be left."""
PIECES = (
    "(", ")", "[", "]", "'", '"""', "\n", "\r\n", "    ", ":", ", ", "nl.", " = ", "@nki.jit\n", "é😀", "#", "\\", "0",
    "lambda: ", "def f(x):\n", "nl.psum", "nl.sbuf", "128", "512", "513", "dst=", "for i in nl.affine_range(4):\n", "\t",
)  # fmt: skip
QUESTIONS = (
    "hover", "completion", "signatureHelp", "definition", "references", "documentHighlight", "documentSymbol",
    "foldingRange", "semanticTokens/full", "codeLens", "inlayHint", "codeAction", "selectionRange", "prepareRename",
)  # fmt: skip


CALLER = """import nki
import nki.language as nl
import nki.typing as nt
import kernels
from faults import *


@nki.jit
def calls(x: nt.tensor[128, 64]):
    t = nl.load(x)
    return kernels.nothing(t)
"""


class Typist:
    """Types in one text, and takes back what it typed: a fault stays for a while, the module for ever."""

    def __init__(self, client: Client, uri: str, text: str, seed: int) -> None:
        self.client = client
        self.uri = uri
        self.text = text
        self._draw = random.Random(seed)
        self._undo: list[tuple[int, str, str]] = []  # where, what stands there, what stood there
        client.open(uri, text)

    def edit(self) -> None:
        """Make one edit."""
        if self._undo and self._draw.random() < len(self._undo) / DEPTH:
            at, new, old = self._undo.pop()
            self._replace(at, new, old)
            return
        at, old, new = self._drawn()
        self._undo.append((at, new, old))
        self._replace(at, old, new)

    def _drawn(self) -> tuple[int, str, str]:
        """Draw an edit: its place, what goes and what comes."""
        draw = self._draw
        at = draw.randrange(len(self.text))
        lines = self.text.splitlines(keepends=True)
        start = self.text.rfind("\n", 0, at) + 1
        match draw.randrange(5):
            case 0:
                return at, "", draw.choice(PIECES)
            case 1:
                return at, self.text[at : at + draw.choice((1, 1, 2, 8, 40))], ""
            case 2:  # a line of the module, pasted
                return start, "", draw.choice(lines)
            case 3:  # a line deleted
                end = self.text.find("\n", at) + 1 or len(self.text)
                return start, self.text[start:end], ""
        first = draw.randrange(len(lines))
        return start, "", "".join(lines[first : first + draw.randrange(20)])

    def _replace(self, at: int, old: str, new: str) -> None:
        assert self.text[at : at + len(old)] == old
        first, last = self._place(at), self._place(at + len(old))
        self.client.change(self.uri, (*first, *last, new))
        self.text = self.text[:at] + new + self.text[at + len(old) :]

    def _place(self, at: int) -> tuple[int, int]:
        """The line and the UTF-16 character of an offset."""
        before = self.text[:at].replace("\r\n", "\n").replace("\r", "\n")
        line = before[before.rfind("\n") + 1 :]
        if self.text[at - 1 : at + 1] == "\r\n":  # between the two is the start of no line
            line, before = self.text[self.text.rfind("\n", 0, at) + 1 : at - 1], before[:-1]
        return before.count("\n"), len(line.encode("utf-16-le")) // 2

    def ask(self) -> int:
        """Ask something about a place; what the answer is, others test."""
        lines = self.text.split("\n")
        line = self._draw.randrange(len(lines))
        place = {"line": line, "character": self._draw.randrange(len(lines[line]) + 1)}
        everything = {"start": {"line": 0, "character": 0}, "end": place}
        params = {
            "textDocument": {"uri": self.uri}, "position": place, "positions": [place], "range": everything,
            "context": {"diagnostics": [], "includeDeclaration": True},
        }  # fmt: skip
        return self.client.ask(f"textDocument/{self._draw.choice(QUESTIONS)}", params)


def modules(folder: Path) -> Iterator[tuple[Path, str]]:
    """Modules of some hundred lines with findings of many kinds, one of which another imports."""
    sources = [(file.stem, file.read_text(encoding="utf-8")) for file in sorted(KERNELS.glob("*.py"))]
    parts = {
        "faults": [text for name, text in sources if name.startswith("fault")],
        "kernels": [text for name, text in sources if not name.startswith("fault")],
    }
    for name, texts in parts.items():
        heads = [line for text in texts for line in text.split("\n") if line.startswith("from __future__")]
        body = "\n\n".join("\n".join(line for line in text.split("\n") if line not in heads) for text in texts)
        yield folder / f"{name}.py", "\n".join([*heads[:1], body])
    yield folder / "caller.py", CALLER


def found(client: Client, uri: str) -> list[Any]:
    """The findings in a text, without what only names this answer."""
    items = client.pulled(uri)["items"]
    return sorted(
        (item["range"]["start"]["line"], item["range"]["start"]["character"], item["code"], item["message"])
        for item in items
    )


def same_as_fresh(live: Client, typists: list[Typist]) -> None:
    fresh = connect()
    fresh.initialize(PATIENT)
    try:
        for typist in typists:
            fresh.open(typist.uri, typist.text)
        for typist in typists:
            assert found(live, typist.uri) == found(fresh, typist.uri), typist.uri
    finally:
        assert fresh.leave() == 0


PATIENCE = 240.0
"""Seconds for an answer on a machine that does much else."""
PATIENT: Message = {"textDocument": PULLING["textDocument"]}
"""An editor that waits for everything."""


def test_a_day_of_typing(tmp_path: Path, record_property: Any) -> None:
    client = connect()
    client.initialize(PATIENT)
    files = list(modules(tmp_path))
    for path, text in files:
        path.write_text(text, encoding="utf-8")
    typists = [Typist(client, path.as_uri(), text, seed) for seed, (path, text) in enumerate(files)]
    draw = random.Random(11)
    memory = []
    try:
        for number in range(1, EDITS + 1):
            typist = draw.choices(typists, (3, 3, 1))[0]
            typist.edit()
            asked = typist.ask() if number % 4 == 0 else 0
            if number % 20 == 0:
                client.pulled(typist.uri)
            elif asked:
                client.answer(asked)
            client.seen.clear()
            if number % COMPARED == 0:
                same_as_fresh(client, typists)
                memory.append(resident_bytes(client.process.pid))
                print(number, [size >> 20 for size in memory[-1]], flush=True)
    finally:
        record_property("resident_bytes", memory)
    assert client.leave() == 0
    assert max(sum(item) for item in memory) <= MOST_BYTES, memory


def test_memory_is_bounded_while_a_large_module_is_edited(tmp_path: Path, record_property: Any) -> None:
    client = connect()
    client.initialize(PATIENT)
    path = tmp_path / "large.py"
    path.write_text(module(12, 3_600), encoding="utf-8")
    typist = Typist(client, path.as_uri(), path.read_text(encoding="utf-8"), 7)
    memory: list[tuple[int, int]] = []
    for number in range(1, LARGE_EDITS + 1):
        typist.edit()
        if number % 4 == 0:
            client.answer(typist.ask(), PATIENCE)
        if number % 20 == 0:
            client.answer(client.ask("textDocument/diagnostic", {"textDocument": {"uri": typist.uri}}), PATIENCE)
            memory.append((number, sum(resident_bytes(client.process.pid))))
        client.seen.clear()
        if number % 200 == 0:
            print(number, [size >> 20 for size in resident_bytes(client.process.pid)], flush=True)
    record_property("resident_bytes", memory)
    assert client.leave() == 0
    assert max(size for _, size in memory) <= MOST_BYTES, memory
    later = [item for item in memory if item[0] > SETTLED]
    growth = statistics.linear_regression(*zip(*later, strict=True)).slope * 1000
    assert growth <= MOST_GROWTH, (growth, memory)
