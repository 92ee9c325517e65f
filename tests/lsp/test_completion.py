"""Completions and signatures of a real server: lists, edits in all encodings, notebooks, editors that can do less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import PUSHED, Client, connect
from tests.lsp.test_notebook import IMPORTS, Notebook
from tests.lsp.test_server import HEAD, SLOW, kernel

ABLE = {
    "textDocument": {
        "completion": {
            "completionItem": {
                "snippetSupport": True,
                "labelDetailsSupport": True,
                "insertReplaceSupport": True,
                "tagSupport": {"valueSet": [1]},
            },
            "completionList": {"itemDefaults": ["editRange"]},
        },
        "signatureHelp": {"signatureInformation": {"parameterInformation": {"labelOffsetSupport": True}}},
        **PUSHED["textDocument"],
    }
}
UNITS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


@pytest.fixture(scope="module")
def able() -> Iterator[Client]:
    """An editor with snippets, label details and default ranges."""
    made = connect()
    offered = made.initialize(ABLE, steps=72_000_000)
    assert offered["completionProvider"]["triggerCharacters"] == [".", "(", ",", "=", " "]
    assert offered["completionProvider"]["resolveProvider"] is True
    assert offered["signatureHelpProvider"]["triggerCharacters"] == ["(", ","]
    yield made
    assert made.leave() == 0


def ask(client: Client, uri: str, line: int, character: int, method: str = "completion", typed: str = "") -> Any:
    """The answer about a place."""
    context = {"triggerKind": 2, "triggerCharacter": typed} if typed else {"triggerKind": 1}
    where: dict[str, Any] = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}
    if method == "completion":
        where["context"] = context
    return client.request(f"textDocument/{method}", where)


def units(text: str, encoding: str = "utf-16") -> int:
    """The code units of a text."""
    return len(text.encode(UNITS[encoding])) // {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]


def item_of(found: Any, label: str) -> dict[str, Any]:
    """The completion of that label."""
    (item,) = [item for item in found["items"] if item["label"] == label]
    return dict(item)


def labels(found: Any) -> list[str]:
    """The labels of a list in the order that an editor shows them in."""
    return [item["label"] for item in sorted(found["items"], key=lambda item: item["sortText"])]


def test_an_instruction_is_completed_with_its_call(able: Client, uri: str) -> None:
    able.open(uri, kernel("nisa.nc_"))
    found = ask(able, uri, 9, 12)
    item = item_of(found, "nc_matmul")
    assert item["labelDetails"]["detail"].startswith("(dst, stationary, moving")
    assert item["labelDetails"]["description"] == "Tensor Engine"
    assert item["detail"].startswith("dst[M, N] = stationary[K, M].T @ moving[K, N]")
    assert item["textEditText"] == "nc_matmul(dst=$1, stationary=$2, moving=$3)$0"
    assert item["insertTextFormat"] == 2
    stretch = {"start": {"line": 9, "character": 9}, "end": {"line": 9, "character": 12}}
    assert found["itemDefaults"]["editRange"] == {"insert": stretch, "replace": stretch}
    resolved = able.request("completionItem/resolve", item)
    assert resolved["documentation"]["kind"] == "markdown"
    assert "**Limits** on trn3 (NeuronCore-v4)" in resolved["documentation"]["value"]
    assert resolved["label"] == "nc_matmul"


def test_an_editor_that_can_do_less_gets_plain_names(client: Client, uri: str) -> None:
    client.open(uri, kernel("nisa.nc_x"))
    found = ask(client, uri, 9, 12)
    item = item_of(found, "nc_matmul")
    assert item["textEdit"] == {
        "range": {"start": {"line": 9, "character": 9}, "end": {"line": 9, "character": 12}}, "newText": "nc_matmul",
    }  # fmt: skip
    assert "labelDetails" not in item
    assert "insertTextFormat" not in item
    assert item["detail"].startswith("(dst, stationary, moving")
    assert "itemDefaults" not in found
    assert item_of(found, "vector_engine")["deprecated"] is True


def test_missing_keywords_come_first_in_the_list(able: Client, uri: str) -> None:
    able.open(uri, kernel("nisa.nc_matmul(dst=tile, )"))
    found = ask(able, uri, 9, len("    nisa.nc_matmul(dst=tile, "))
    assert labels(found)[:2] == ["stationary=", "moving="]
    assert "dst=" not in labels(found)
    assert ask(able, uri, 9, len("    nisa.nc_matmul(dst=tile, "), typed=" ") is None


def test_names_show_the_shapes_of_an_evaluation(able: Client, uri: str) -> None:
    able.open(uri, kernel("part = nl.load(x)[0:64]", ""))
    assert able.published(uri) == []
    able.change(uri, (10, 0, 10, 0, "    nisa.tensor_copy(dst=pa"))
    found = ask(able, uri, 10, len("    nisa.tensor_copy(dst=pa"))
    assert item_of(found, "part")["labelDetails"]["description"] == "(64, 64) float32 in SBUF"
    able.change(uri, (10, 0, 10, 99, "    part."))
    found = ask(able, uri, 10, len("    part."), typed=".")
    assert item_of(found, "shape")["labelDetails"]["description"] == "(64, 64)"


def test_deprecated_names_have_the_tag(able: Client, uri: str) -> None:
    able.open(uri, kernel("nl."))
    found = ask(able, uri, 9, 7, typed=".")
    assert item_of(found, "affine_range")["tags"] == [1]
    assert "tags" not in item_of(found, "load")
    assert labels(found)[-1] in {item["label"] for item in found["items"] if item.get("tags") == [1]}
    removed = able.request("completionItem/resolve", item_of(found, "arange"))
    assert "was removed" in removed["documentation"]["value"]


@pytest.mark.parametrize("encoding", list(UNITS))
def test_edits_are_right_in_all_encodings(encoding: str) -> None:
    client = connect()
    assert client.initialize({"general": {"positionEncodings": [encoding]}})["positionEncoding"] == encoding
    before, word, rest = "    s = '😀é'; nisa.tensor_copy(dst=tile, src=", "ti", "le"
    text = kernel(f"{before.strip()}{word}{rest})  # 😀")
    client.open("file:///k.py", text)
    place = units(before + word, encoding)
    found = ask(client, "file:///k.py", 9, place)
    edit = item_of(found, "tile")["textEdit"]
    assert edit["range"]["start"] == {"line": 9, "character": units(before, encoding)}
    assert edit["range"]["end"] == {"line": 9, "character": place}
    shown = ask(client, "file:///k.py", 9, place, method="signatureHelp")
    assert shown["activeParameter"] == 1
    assert client.leave() == 0


def test_the_rest_of_a_word_can_be_replaced(able: Client, uri: str) -> None:
    able.open(uri, kernel("'😀'; nisa.nc_trans"))
    found = ask(able, uri, 9, units("    '😀'; nisa.nc_"))
    stretch = found["itemDefaults"]["editRange"]
    assert stretch["insert"]["end"]["character"] == units("    '😀'; nisa.nc_")
    assert stretch["replace"]["end"]["character"] == units("    '😀'; nisa.nc_trans")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_do_not_move_the_place(able: Client, uri: str, end: str) -> None:
    able.open(uri, ("\ufeff" + kernel("nisa.nc_")).replace("\n", end))
    assert "nc_matmul" in labels(ask(able, uri, 9, 12))


def test_cells_know_the_names_of_the_cells_above(able: Client, uri: str) -> None:
    body = "%%nki --target trn2\n@nki.jit\ndef k(x: nt.tensor[128, 64]):\n    tile = nl.load(x)\n    '😀'; nisa.tensor_copy(dst=\n    return x"
    notebook = Notebook(able, uri, IMPORTS, "SIZE = 64\n!ls '", body)
    found = ask(able, notebook.cell(2), 4, units("    '😀'; nisa.tensor_copy(dst="))
    assert labels(found)[0] == "tile"
    assert "SIZE" in labels(found)
    assert found["itemDefaults"]["editRange"]["insert"]["start"]["line"] == 4
    shown = ask(able, notebook.cell(2), 4, units("    '😀'; nisa.tensor_copy("), method="signatureHelp")
    assert shown["signatures"][0]["label"].startswith("nisa.tensor_copy(dst, src")
    assert ask(able, notebook.cell(0), 1, 9, typed=" ") is None
    assert "nki.isa" in labels(ask(able, notebook.cell(0), 1, 7))


def test_a_cell_that_an_extension_cut_out_is_completed(able: Client, uri: str) -> None:
    able.open(uri, "@nki.jit\ndef k(x):\n    nisa.nc_", language="nki")
    assert "nc_matmul" in labels(ask(able, uri, 2, 12))


@pytest.mark.parametrize("text", ["import numpy as np\nnp.", "x = 3\nx.", "# nl.", "import n"])
def test_other_texts_are_left_alone(able: Client, uri: str, text: str) -> None:
    able.open(uri, text)
    line = text.count("\n")
    assert ask(able, uri, line, len(text.split("\n")[line])) is None
    assert ask(able, uri, line, len(text.split("\n")[line]), method="signatureHelp") is None


def test_answers_do_not_wait_for_a_long_evaluation(able: Client, uri: str) -> None:
    able.open(uri, SLOW)
    able.change(uri, (9, 0, 9, 0, "    nisa.nc_matmul(dst=\n"))
    assert labels(ask(able, uri, 9, len("    nisa.nc_matmul(dst=")))[0] in ("tile", "x")
    shown = ask(able, uri, 9, len("    nisa.nc_matmul(dst="), method="signatureHelp")
    assert shown["activeParameter"] == 0
    assert able.told(uri) == []
    able.shut(uri)


def test_a_signature_shows_the_limits_of_the_parameter(able: Client, uri: str) -> None:
    able.open(uri, kernel("nisa.nc_matmul(dst=tile, stationary=tile, mov)"))
    shown = ask(able, uri, 9, len("    nisa.nc_matmul(dst=tile, stationary="), method="signatureHelp")
    (signature,) = shown["signatures"]
    parameter = signature["parameters"][shown["activeParameter"]]
    start, end = parameter["label"]
    assert signature["label"][start:end] == "stationary"
    assert "- K <= pmax = 128" in parameter["documentation"]["value"]
    assert "dtypes: float32, tfloat32, bfloat16" in parameter["documentation"]["value"]
    shown = ask(able, uri, 9, len("    nisa.nc_matmul(dst=tile, stationary=tile, mov"), method="signatureHelp")
    assert shown["activeParameter"] == 2


def test_an_editor_without_offsets_gets_the_parameters_as_text(client: Client, uri: str) -> None:
    client.open(uri, kernel("nisa.tensor_copy(unheard="))
    shown = ask(client, uri, 9, len("    nisa.tensor_copy(unheard="), method="signatureHelp")
    assert [item["label"] for item in shown["signatures"][0]["parameters"]][:2] == ["dst", "src"]
    assert shown["activeParameter"] == len(shown["signatures"][0]["parameters"])


def test_the_target_of_the_settings_counts(client: Client, uri: str) -> None:
    client.open(uri, kernel("nisa.nc_"))
    assert "not on" not in item_of(ask(client, uri, 9, 12), "nc_matmul_mx")["detail"]
    client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"target": "trn2"}}})
    assert "not on trn2" in item_of(ask(client, uri, 9, 12), "nc_matmul_mx")["detail"]
    client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {}}})


def test_every_keystroke_of_a_kernel_is_answered(able: Client, uri: str) -> None:
    statement = "nisa.nc_matmul(dst=tile[0:64, :], stationary=tile, moving=nl.exp(x))"
    able.open(uri, kernel(""))
    for column, character in enumerate(statement, start=4):
        able.change(uri, (9, column, 9, column, character) if column > 4 else (9, 0, 9, 0, f"    {character}"))
        found = ask(able, uri, 9, column + 1, typed=character if character in ".(,= " else "")
        ask(able, uri, 9, column + 1, method="signatureHelp")
        for item in found["items"] if found is not None else ():
            assert item["label"]
    assert able.published(uri) is not None


@pytest.mark.parametrize(
    "item", [{"label": "x"}, {"label": "x", "data": 3}, {"label": "x", "data": ["nki.isa.unheard", "trn2"]}]
)
def test_an_item_without_documentation_is_given_back(able: Client, item: dict[str, Any]) -> None:
    assert "documentation" not in able.request("completionItem/resolve", item)


def test_a_place_outside_of_the_text_has_nothing(able: Client, uri: str) -> None:
    able.open(uri, f"{HEAD}nl.")
    assert ask(able, uri, 999, 999) is None
    assert ask(able, f"{uri}.unknown", 0, 0) is None
    assert ask(able, f"{uri}.unknown", 0, 0, method="signatureHelp") is None


def test_helpers_of_other_files_have_their_signatures(able: Client, tmp_path: Path) -> None:
    helpers = (
        "import nki.isa as nisa\n\ndef narrowed(dst, src, *, scale=1.0):\n    nisa.tensor_copy(dst=dst, src=src)\n"
    )
    (tmp_path / "helpers.py").write_text(helpers, encoding="utf-8")
    (tmp_path / "plain.py").write_text("def opened(path):\n    return path\n", encoding="utf-8")
    uri = (tmp_path / "kernel.py").as_uri()
    imports = "from helpers import narrowed\nimport helpers\n"
    able.open(uri, imports + kernel("narrowed(dst=", "helpers.narrowed("))
    for line, text in ((11, "    narrowed(dst="), (12, "    helpers.narrowed(")):
        shown = ask(able, uri, line, len(text), method="signatureHelp")
        assert shown["signatures"][0]["label"] == "narrowed(dst, src, scale=1.0)"
        assert shown["activeParameter"] == 0
    assert labels(ask(able, uri, 12, len("    helpers.narrowed(")))[:2] == ["dst=", "src="]
    (tmp_path / "helpers.py").write_text(helpers.replace("src, *,", "src, more, *,"), encoding="utf-8")
    shown = ask(able, uri, 12, len("    helpers.narrowed("), method="signatureHelp")
    assert shown["signatures"][0]["label"] == "narrowed(dst, src, more, scale=1.0)"
