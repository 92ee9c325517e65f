"""A session with a real server: what an editor is told, what it may ask, and that nobody waits for long work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nki_lab import codes as codes_of_nki
from nki_lab.query import links
from tests.lsp.client import Client, codes, connect, place

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n\n\n"
FAULTY = f"""{HEAD}@nki.jit
def k(x: nt.tensor[128, 64]):
    tile = nl.load(x)
    nisa.tensor_copy(dst=tile, src=x)
    return x
"""
LINE = FAULTY.split("\n").index("    nisa.tensor_copy(dst=tile, src=x)")


def kernel(*body: str, shape: str = "128, 64") -> str:
    """A kernel of these lines over a tile of x."""
    lines = "".join(f"    {line}\n" for line in body)
    return f"{HEAD}@nki.jit\ndef k(x: nt.tensor[{shape}]):\n    tile = nl.load(x)\n{lines}    return x\n"


SLOW = kernel(
    "for i in range(100000):", "    for j in range(1000):", "        nisa.memset(dst=tile, value=0.0)"
)  # evaluated for a while
VERY_SLOW = "\n\n".join(SLOW.replace("def k(", f"def k{n}(") for n in range(12))  # evaluated for seconds


# -- findings ----------------------------------------------------------------------------------------------------------


def test_a_fault_is_told_at_its_operand(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    (found,) = client.until(uri, ["NKI201"])
    assert place(found) == (LINE, 35, LINE, 36)
    assert (found["source"], found["severity"]) == ("nki-lab", 1)
    assert found["message"].startswith("tensor_copy: src is in HBM")
    assert "limit: " in found["message"]
    assert "help: " in found["message"]


def test_findings_go_when_the_fault_does(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    client.until(uri, ["NKI201"])
    version = client.change(uri, (LINE, 35, LINE, 36, "tile"))
    assert client.published(uri, version) == []
    client.shut(uri)


def test_findings_go_when_the_text_is_closed(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    client.until(uri, ["NKI201"])
    client.shut(uri)
    assert client.published(uri) == []


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_are_the_editor_s(client: Client, uri: str, end: str) -> None:
    client.open(uri, FAULTY.replace("\n", end))
    assert place(client.until(uri, ["NKI201"])[0]) == (LINE, 35, LINE, 36)


def test_tabs_and_emoji_are_counted_in_code_units(client: Client, uri: str) -> None:
    text = f"{HEAD}@nki.jit\ndef k(x: nt.tensor[128, 64]):\n\ttile = nl.load(x)\n\ts = '😀é'; nisa.tensor_copy(dst=tile, src=x)\n\treturn x\n"
    client.open(uri, text)
    (found,) = client.until(uri, ["NKI201"])
    line = text.split("\n").index("\ts = '😀é'; nisa.tensor_copy(dst=tile, src=x)")
    units = len("\ts = '😀é'; nisa.tensor_copy(dst=tile, src=".encode("utf-16-le")) // 2
    assert place(found) == (line, units, line, units + 1)


def test_a_form_feed_and_a_line_separator_end_no_line(client: Client, uri: str) -> None:
    text = FAULTY.replace("import nki\n", "s = '\u2028'\x0c\nimport nki\n", 1)
    client.open(uri, text)
    assert place(client.until(uri, ["NKI201"])[0]) == (LINE + 1, 35, LINE + 1, 36)
    client.change(uri, (LINE, 0, LINE, 0, "\n"))
    assert place(client.until(uri, ["NKI201"])[0]) == (LINE + 2, 35, LINE + 2, 36)


def test_a_half_typed_line_hides_no_other_finding(client: Client, uri: str) -> None:
    text = FAULTY.replace("    return x\n", "    y = nl.load(x[\n    return x\n")
    client.open(uri, text)
    found = client.until(uri, ["NKI201", "NKI101"])
    assert [place(item)[0] for item in found] == [LINE, LINE + 1]


def test_what_a_half_typed_line_mentions_is_not_judged(client: Client, uri: str) -> None:
    text = kernel(
        "out = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)", "nisa.tensor_copy(dst=out, src=tile",
        "later = made +", "nisa.tensor_copy(dst=tile, src=out)", "nl.store(x, later)",
    )  # fmt: skip
    client.open(uri, text)
    (found,) = client.published(uri)
    assert (found["code"], place(found)[0]) == ("NKI101", 10)
    version = client.change(uri, (0, 0, 0, 0, "\n"))
    assert codes(client.published(uri, version)) == ["NKI101"]


def test_evaluated_findings_stay_while_something_is_typed(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    client.until(uri, ["NKI201"])
    for column, character in enumerate("y = (3"):
        version = client.change(uri, (4, column, 4, column, character))
        assert codes(client.published(uri, version)) in (["NKI201"], ["NKI101", "NKI201"])


def test_two_texts_at_once_keep_their_findings_apart(client: Client, uri: str) -> None:
    other = uri.replace(".py", "_other.py")
    client.open(uri, FAULTY)
    client.open(other, FAULTY.replace("src=x", "src=tile").replace("return x", "return [i for i in range(3)]"))
    client.until(other, ["NKI103"])
    client.change(other, (0, 0, 0, 0, "\n"))
    client.change(uri, (0, 0, 0, 0, "\n"))
    while place(client.until(uri, ["NKI201"])[0])[0] != LINE + 1:
        pass  # the findings before the change


def test_a_text_waits_for_no_other_s_kernels(patient: Client, uri: str) -> None:
    other = uri.replace(".py", "_other.py")
    patient.open(uri, SLOW)
    patient.open(other, "import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n")
    assert codes(patient.published(other)) == ["NKI104"]
    assert patient.told(uri) == []
    patient.shut(uri)
    assert codes(patient.published(other)) == ["NKI121", "NKI104"]


def test_faults_are_told_while_their_kernel_is_evaluated(patient: Client, uri: str) -> None:
    faulty = VERY_SLOW.replace("    for i", "    nisa.tensor_copy(dst=tile, src=x)\n    for i", 1)
    patient.open(uri, faulty)
    assert codes(patient.published(uri)) == ["NKI201"]
    version = patient.change(uri, faulty.replace("src=x", "src=tile").replace("value=0.0", "value=x", 1))
    patient.until(uri, ["NKI012"])
    assert patient.told(uri)[-1]["version"] == version
    patient.shut(uri)


def test_an_endless_kernel_is_given_up(client: Client, uri: str) -> None:
    client.open(uri, SLOW)
    (found,) = client.published(uri)
    assert (found["code"], found["severity"]) == ("NKI120", 3)


def test_only_the_newest_version_is_told(client: Client, uri: str) -> None:
    client.open(uri, SLOW)
    versions = [client.change(uri, (0, 0, 0, 0, "#")) for _ in range(5)]
    last = client.change(uri, FAULTY)
    client.until(uri, ["NKI201"])
    told = [item["version"] for item in client.told(uri)]
    assert told[-1] == last
    assert told == sorted(told)
    assert not set(told) & set(versions[:-1])


# -- hover -------------------------------------------------------------------------------------------------------------


def test_a_hover_tells_the_instruction_and_this_call(client: Client, uri: str) -> None:
    client.open(uri, kernel("nisa.activation(dst=tile, op=nl.exp, data=tile)"))
    assert client.published(uri) == []
    shown = client.hover(uri, 9, 10)
    assert shown.startswith("```python\nnisa.activation(dst, op, data")
    assert "**Here** on trn3: Scalar Engine" in shown
    assert "- `data`: (128, 64) float32 in SBUF" in shown
    assert "cycles" in shown
    assert "**Limits** on trn3 (NeuronCore-v4)" in shown


def test_a_hover_tells_what_a_name_stands_for(client: Client, uri: str) -> None:
    client.open(uri, kernel("y = tile"))
    client.published(uri)
    assert client.hover(uri, 9, 9) == "`tile`: (128, 64) float32 in SBUF, 256 bytes per partition"
    assert client.hover(uri, 5, 0) == ""


def test_a_hover_over_a_fault_says_what_its_code_means(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    client.until(uri, ["NKI201"])
    shown = client.hover(uri, LINE, 35)
    assert "`x`: (128, 64) float32 in HBM" in shown
    assert f"**[NKI201]({links.code_link('NKI201')})** {codes_of_nki.get('NKI201').title}" in shown


def test_a_hover_does_not_wait_for_a_long_evaluation(patient: Client, uri: str) -> None:
    patient.open(uri, SLOW)
    assert "nl.load(src" in patient.hover(uri, 8, 14)
    assert patient.told(uri) == []
    patient.shut(uri)


def test_shapes_of_unchanged_lines_are_known_while_something_is_typed(client: Client, uri: str) -> None:
    client.open(uri, kernel("y = tile"))
    client.published(uri)
    client.change(uri, (0, 0, 0, 0, "import os\nfoo(\n"))
    assert "(128, 64) float32 in SBUF" in client.hover(uri, 11, 9)


# -- fixes, hints, explanations ----------------------------------------------------------------------------------------


def actions(client: Client, uri: str, found: list[dict[str, object]]) -> list[dict[str, object]]:
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    context = {"diagnostics": found}
    params = {"textDocument": {"uri": uri}, "range": where, "context": context}
    return list(client.request("textDocument/codeAction", params))


def test_a_misspelt_name_is_put_right(client: Client, uri: str) -> None:
    client.open(uri, kernel("nisa.tensor_copy(dst=tile, src=tlie)"))
    found = client.until(uri, ["NKI102"])
    fix, about = actions(client, uri, found)
    assert fix["title"] == "Change tlie to tile"
    assert fix["isPreferred"] is True
    assert fix["edit"] == {"changes": {uri: [{"range": found[0]["range"], "newText": "tile"}]}}
    assert about["title"] == "Explain NKI102: A kernel uses an undefined name"


def test_the_page_of_a_code_is_at_hand(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    found = client.until(uri, ["NKI201"])
    (about,) = actions(client, uri, found)
    command = about["command"]
    assert isinstance(command, dict)
    assert command["arguments"] == ["NKI201"]
    shown = client.request("workspace/executeCommand", {k: command[k] for k in ("command", "arguments")})
    assert shown.startswith("# NKI201")
    assert client.request("workspace/executeCommand", {"command": "nki-lab.explain", "arguments": ["nothing"]}) is None


def test_findings_of_others_get_no_actions(client: Client, uri: str) -> None:
    client.open(uri, FAULTY)
    (found,) = client.until(uri, ["NKI201"])
    assert actions(client, uri, [found | {"source": "pyright"}]) == []


BETA1 = """\
import neuronxcc.nki.language as nl
from neuronxcc import nki


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    nl.store(out[i_p, i_f], value=nl.load(x[i_p, i_f]))
    return out
"""


def test_a_file_of_beta_1_is_migrated_by_one_action(client: Client, uri: str) -> None:
    client.open(uri, BETA1)
    client.published(uri)
    action: Any
    (action,) = [item for item in actions(client, uri, []) if str(item["title"]).startswith("Migrate")]
    assert not action["kind"].startswith("source.fixAll")  # which editors may ask for whenever a file is saved
    lines = BETA1.splitlines(keepends=True)
    for edit in reversed(action["edit"]["changes"][uri]):
        first, last = edit["range"]["start"]["line"], edit["range"]["end"]["line"]
        lines[first:last] = [edit["newText"]]
    after = "".join(lines)
    assert "neuronxcc" not in after and "arange" not in after
    assert "nl.store(out[0:128, 0:64], value=nl.load(x[0:128, 0:64]))" in after


def test_other_files_are_not_offered_to_be_migrated(client: Client, uri: str) -> None:
    client.open(uri, kernel("y = nl.exp(tile)"))
    client.published(uri)
    assert not [item for item in actions(client, uri, []) if str(item["title"]).startswith("Migrate")]


def test_shapes_stand_beside_the_names_that_are_bound(client: Client, uri: str) -> None:
    client.open(uri, kernel("width = 3", "y = nl.ndarray((64, 2, width), nl.bfloat16, buffer=nl.psum)"))
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    client.pulled(uri)  # which waits for the evaluation
    hints = client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": where})
    assert [(item["position"]["line"], item["position"]["character"], item["label"]) for item in hints] == [
        (8, 8, ": 128×64 float32 SBUF"),
        (10, 5, ": 64×2×3 bfloat16 PSUM"),
    ]


# -- cancelling, settings ----------------------------------------------------------------------------------------------


def test_a_request_can_be_taken_back(patient: Client, uri: str) -> None:
    patient.open(uri, SLOW)
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    number = patient.ask("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": where})
    patient.notify("$/cancelRequest", {"id": number})
    assert patient.answer(number)["error"]["code"] == -32800
    patient.shut(uri)


WIDE = kernel("nisa.tensor_copy(dst=tile, src=tile, engine=nisa.engine.vector)", "nisa.exponential(dst=tile, src=tile)")


def test_another_target_is_another_answer(client: Client, uri: str) -> None:
    client.open(uri, WIDE)
    client.published(uri)
    client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"target": "trn2"}}})
    (found,) = client.until(uri, ["NKI209"])
    assert "NeuronCore-v3" in found["message"]
    client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {}}})
    assert client.published(uri) == []


def test_an_editor_that_has_settings_is_asked() -> None:
    client = connect()
    client.replies = {"workspace/configuration": [{"target": "trn2"}]}
    capabilities = {"workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}}}
    client.initialize(capabilities)
    client.open("file:///k.py", WIDE)
    client.until("file:///k.py", ["NKI209"])
    asked = [item["method"] for item in client.seen if "method" in item and "id" in item]
    assert asked == ["client/registerCapability", "workspace/configuration"]
    assert client.leave() == 0


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["utf-8", "utf-16"], "utf-8"), (["utf-32"], "utf-32"), (["x"], "utf-16")]
)
def test_positions_are_in_the_units_that_were_agreed_on(offered: list[str], chosen: str) -> None:
    client = connect()
    assert client.initialize({"general": {"positionEncodings": offered}})["positionEncoding"] == chosen
    prefix = "    s = '😀é'; nisa.tensor_copy(dst=tile, src="
    text = kernel(f"{prefix.strip()}x)")
    client.open("file:///k.py", text)
    (found,) = client.until("file:///k.py", ["NKI201"])
    units = {"utf-8": 49, "utf-16": 46, "utf-32": 45}[chosen]
    assert place(found)[1] == units
    client.change("file:///k.py", (9, units, 9, units + 1, "tile"))
    assert client.published("file:///k.py") == []
    assert client.leave() == 0


def test_the_project_says_what_it_wants_to_hear(client: Client, tmp_path: Path) -> None:
    settings = (
        "[tool.nki-lab]\ntarget = 'trn2'\nignore = ['NKI104']\n[tool.nki-lab.shapes]\nk = { x = 'float32[128,64]' }\n"
    )
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    uri = (tmp_path / "k.py").as_uri()
    text = WIDE.replace("x: nt.tensor[128, 64]", "x").replace(
        "    return x", "    y = lambda: 0\n    del y\n    return x"
    )
    client.open(uri, text)
    client.until(uri, ["NKI209", "NKI107"])
    client.change(uri, text.replace("    del y\n", "    del y  # nki: noqa\n"))
    client.until(uri, ["NKI209"])
