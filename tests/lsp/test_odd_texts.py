"""Positions count the editor's units whatever stands before them and however lines end; texts may be of any size.

Each answer about a text with emoji and mixed line ends is compared with the one about the same text in ASCII: all of
their positions must be of the same characters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import PULLING, codes, connect

pytestmark = pytest.mark.extended

ENDS = ("\n", "\r", "\r\n")
"""In this order no empty line makes one end of two."""
SIZES = {"utf-8": 4, "utf-16": 2, "utf-32": 1}
"""Code units of an emoji."""
PLAIN = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt


def doubled(tile):
    'a'; total = nl.add(tile, tile)
    'aa'; return total


@nki.jit
def k(x: nt.tensor[128, 64]):
    'a'; out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    'aa'; tile = nl.load(x); wide = doubled(tile=tile)
    for i in nl.affine_range(4):
        'aaa'; nisa.memset(dst=tile, value=0.0); nisa.tensor_copy(dst=tile, src=x)
    'a'; nl.store(out, nl.exq(wide)); 'a'; nl.store('a' and out, tile)
    'aa'; return out
"""
COMPLETED = "    'aa'; tile = nl.load(x); wide = doubled(tile=tile)"
WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": PLAIN.count("\n"), "character": 0}}
AT_A_PLACE = ("hover", "definition", "references", "documentHighlight", "prepareRename", "rename", "completion",
              "signatureHelp", "selectionRange")  # fmt: skip
OF_ALL = ("documentSymbol", "foldingRange", "inlayHint", "codeLens", "codeAction", "semanticTokens/full", "diagnostic")
URI = "file:///odd.py"


class Odd:
    """A text with emoji in the place of each quoted `a`, and with all ends of lines."""

    def __init__(self, unit: str, *, emoji: bool) -> None:
        self.size = SIZES[unit] if emoji else 1
        self.client = connect()
        capabilities = PULLING | {"general": {"positionEncodings": [unit]}}
        assert self.client.initialize(capabilities, steps=72_000_000)["positionEncoding"] == unit
        self.lines = [
            re.sub(r"'(a+)'", lambda found: f"'{'😀' * len(found[1])}'", line) if emoji else line
            for line in PLAIN.split("\n")
        ]
        ends = ENDS if emoji else ENDS[:1]
        self.text = "".join(line + ends[number % len(ends)] for number, line in enumerate(self.lines[:-1]))
        self.client.open(URI, self.text)
        self.client.pulled(URI)

    def units(self, line: int, character: int) -> int:
        """The units before a character of a line."""
        before = self.lines[line][:character]
        return len(before) + (self.size - 1) * before.count("😀")

    def characters(self, line: int, units: int) -> int:
        """The characters before a place that the server names; half a character is a fault."""
        for column in range(len(self.lines[line]) + 1):
            if self.units(line, column) == units:
                return column
        raise AssertionError((line, units, self.lines[line]))

    def ask(self, method: str, line: int = 0, character: int = 0, **more: Any) -> Any:
        """The answer about a place, its positions as characters."""
        place = {"line": line, "character": self.units(line, character)}
        params = {
            "textDocument": {"uri": URI}, "position": place, "positions": [place], "range": WHOLE, "newName": "renamed",
            "context": {"diagnostics": [], "includeDeclaration": True},
        } | more  # fmt: skip
        found = self.client.answer(self.client.ask(f"textDocument/{method}", params))
        result = found.get("result", found.get("error"))
        return self.tokens(result["data"]) if method.startswith("semanticTokens") else self.plain(result)

    def plain(self, value: Any) -> Any:
        """An answer in which positions count characters, and emoji are the letter again."""
        if isinstance(value, dict):
            if value.get("uri", URI) != URI or value.get("targetUri", URI) != URI:
                return value  # a place in another file
            if value.keys() == {"line", "character"}:
                return value["line"], self.characters(value["line"], value["character"])
            if "startCharacter" in value:
                value = value | {key: self.characters(value[f"{key[:-9]}Line"], value[key])
                                 for key in ("startCharacter", "endCharacter") if key in value}  # fmt: skip
            return {key: self.plain(item) for key, item in value.items() if key not in ("resultId", "id")}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        return value.replace("😀", "a") if isinstance(value, str) else value

    def tokens(self, data: list[int]) -> list[tuple[str, int, int, int, int]]:
        """Semantic tokens: text, line, character, kind and modifiers."""
        found, line, units = [], 0, 0
        for down, right, length, kind, modifiers in zip(*[iter(data)] * 5, strict=True):
            line, units = line + down, right if down else units + right
            start, end = self.characters(line, units), self.characters(line, units + length)
            found.append((self.lines[line][start:end].replace("😀", "a"), line, start, kind, modifiers))
        return found


@pytest.fixture(scope="module")
def plain() -> Iterator[Odd]:
    made = Odd("utf-16", emoji=False)
    yield made
    assert made.client.leave() == 0


@pytest.fixture(scope="module", params=SIZES)
def odd(request: pytest.FixtureRequest) -> Iterator[Odd]:
    made = Odd(request.param, emoji=True)
    yield made
    assert made.client.leave() == 0


def names() -> list[tuple[int, int]]:
    """The lines and characters of all names and attributes."""
    nodes = [node for node in ast.walk(ast.parse(PLAIN)) if isinstance(node, ast.Name | ast.Attribute | ast.keyword)]
    found = {
        (node.end_lineno or 0, (node.end_col_offset or 0) - 1) for node in nodes if not isinstance(node, ast.keyword)
    }
    found |= {(node.lineno, node.col_offset) for node in nodes if isinstance(node, ast.keyword)}
    return [(line - 1, character) for line, character in sorted(found)]


def test_the_text_has_findings_and_names_behind_emoji(odd: Odd) -> None:
    found = odd.client.pulled(URI)["items"]
    assert {"NKI006", "NKI201"} <= set(codes(found))
    assert len(names()) > 40
    assert {end for end in ENDS if end in odd.text} == set(ENDS)


@pytest.mark.parametrize("method", OF_ALL)
def test_answers_about_all_of_a_text_have_the_places_of_the_same_characters(plain: Odd, odd: Odd, method: str) -> None:
    expected = plain.ask(method)
    assert expected
    assert odd.ask(method) == expected


@pytest.mark.parametrize("method", AT_A_PLACE)
def test_answers_about_a_name_have_the_places_of_the_same_characters(plain: Odd, odd: Odd, method: str) -> None:
    answered = 0
    for line, character in names():
        expected = plain.ask(method, line, character)
        answered += bool(expected)
        assert odd.ask(method, line, character) == expected, (line, character)
    assert answered > 5


def test_fixes_of_a_finding_have_the_places_of_the_same_characters(plain: Odd, odd: Odd) -> None:
    for code in ("NKI006", "NKI201"):
        edits = []
        for text in (plain, odd):
            finding = next(item for item in text.client.pulled(URI)["items"] if item["code"] == code)
            context = {"diagnostics": [finding], "only": ["quickfix"]}
            edits.append([
                {key: item.get(key) for key in ("title", "edit", "kind")}
                for item in text.ask("codeAction", range=finding["range"], context=context)
            ])  # fmt: skip
        assert edits[0]
        assert edits[0] == edits[1], code


def test_an_edit_behind_emoji_and_mixed_ends_changes_what_it_names(odd: Odd) -> None:
    line = next(number for number, text in enumerate(odd.lines) if "nl.exq" in text)
    at = odd.lines[line].index("exq")
    start, end = odd.units(line, at), odd.units(line, at + 3)
    odd.client.change(URI, (line, start, line, end, "exp"))
    assert "NKI006" not in codes(odd.client.pulled(URI)["items"])
    odd.client.change(URI, (line, start, line, end, "exq"))
    assert "NKI006" in codes(odd.client.pulled(URI)["items"])


# -- sizes -------------------------------------------------------------------------------------------------------------

LARGE = 5 << 20
"""Bytes of a file beyond the 4 MiB that imports and the check of folders read."""
HELPERS = "import nki\nimport nki.language as nl\n\n\ndef same(t):\n    return t\n"
CALLER = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
from huge import same


@nki.jit
def k(x: nt.tensor[128, 64]):
    tile = same(nl.load(x))
    nisa.tensor_copy(dst=nl.loat(x), src=x)
    return x
"""


def test_a_huge_file_is_passed_over_on_the_disk_and_examined_in_the_editor(tmp_path: Path) -> None:
    padding = "# " + "x" * 997 + "\n"
    huge = HELPERS + padding * (LARGE // len(padding)) + "wrong = nl.loat\n"
    (tmp_path / "huge.py").write_text(huge, encoding="utf-8")
    (tmp_path / "caller.py").write_text(CALLER, encoding="utf-8")
    client = connect()
    folders = [{"uri": tmp_path.as_uri(), "name": "odd"}]
    params = {"processId": None, "rootUri": None, "capabilities": PULLING, "workspaceFolders": folders}
    client.request("initialize", params)
    client.notify("initialized", {})
    reports = client.request("workspace/diagnostic", {"previousResultIds": []})["items"]
    found = {Path(item["uri"]).name: codes(item["items"]) for item in reports}
    assert "NKI006" in found.pop("caller.py")
    assert not found
    uri, caller = (tmp_path / "huge.py").as_uri(), (tmp_path / "caller.py").as_uri()
    client.open(caller, CALLER)
    call = {"textDocument": {"uri": caller}, "position": {"line": 9, "character": 12}}
    for method in ("hover", "definition", "references", "completion", "prepareRename"):
        client.answer(client.ask(f"textDocument/{method}", call | {"context": {"includeDeclaration": True}}))
    client.open(uri, huge)
    (finding,) = client.pulled(uri)["items"]
    assert (finding["code"], finding["range"]["start"]) == ("NKI006", {"line": huge.count("\n") - 1, "character": 8})
    client.change(uri, (huge.count("\n") - 1, 0, huge.count("\n"), 0, ""))
    assert client.pulled(uri)["items"] == []
    assert client.leave() == 0
