"""Lines above kernels and hints in the code over the wire: figures are those of a profile, and nobody waits for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import nki_lab
from nki_lab.export import formatting
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.quantities import nanoseconds
from tests.lsp.client import ROOT, Client, connect
from tests.lsp.test_notebook import IMPORTS, Notebook
from tests.lsp.test_server import HEAD

CAPABLE = {
    "workspace": {"codeLens": {"refreshSupport": True}, "inlayHint": {"refreshSupport": True}},
    "window": {"showDocument": {"support": True}},
}
KERNEL = f"""{HEAD}@nki.jit
def k(x: nt.tensor[(128, 512), nl.float32]):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in range(4):
        nisa.activation(
            dst=tile, op=nl.exp, data=tile,
        )
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.fixture(scope="module")
def lens() -> Iterator[Client]:
    """An editor that draws lenses, asks again, and shows documents."""
    client = connect()
    offers = client.initialize(CAPABLE)
    assert offers["codeLensProvider"] == {"resolveProvider": True}
    assert {"nki-lab.cell", "nki-lab.targets"} <= set(offers["executeCommandProvider"]["commands"])
    client.replies["window/showDocument"] = {"success": True}
    yield client
    assert client.leave() == 0


def lenses(client: Client, uri: str) -> list[dict[str, Any]]:
    """The lenses of a text, without their figures."""
    return list(client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}))


def titles(client: Client, uri: str) -> dict[str, list[str]]:
    """The resolved titles of the lenses by the kernels' names."""
    out: dict[str, list[str]] = {}
    for item in lenses(client, uri):
        title = client.request("codeLens/resolve", item)["command"]["title"]
        out.setdefault(item["data"]["kernel"], []).append(title)
    return out


def execute(client: Client, command: str, *arguments: object) -> Any:
    """The result of a command."""
    return client.request("workspace/executeCommand", {"command": command, "arguments": list(arguments)})


def hints(client: Client, uri: str) -> dict[int, str]:
    """The hints by line."""
    client.pulled(uri)
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    found = client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": where})
    return {item["position"]["line"]: item["label"] for item in found}


def configure(client: Client, **wanted: Any) -> None:
    """Change the settings."""
    client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"target": "trn2"} | wanted}})


def line_of(part: str) -> int:
    """The line of the kernel that contains a part."""
    return next(number for number, line in enumerate(KERNEL.split("\n")) if part in line)


def profiled(tmp_path: Path, text: str = KERNEL) -> Any:
    """The profile of the kernel."""
    path = tmp_path / "profiled.py"
    path.write_text(text)
    names: dict[str, Any] = {}
    nki_lab.activate()
    exec(compile(text, str(path), "exec"), names)
    return nki_lab.profile(names["k"], nki_lab.spec((128, 512), "float32"), target="trn2")


def test_figures_are_those_of_a_profile(lens: Client, uri: str, tmp_path: Path) -> None:
    configure(lens)
    lens.open(uri, KERNEL)
    found = lenses(lens, uri)
    assert [item["range"]["start"]["line"] for item in found] == [line_of("def k")] * 4
    run, time, memory, findings = titles(lens, uri)["k"]
    summary = profiled(tmp_path).summary
    assert run == "▶ run in a notebook cell"
    assert time == f"≈ {formatting.makespan(summary, round(summary.makespan_ns * 1000))} on trn2"
    assert memory == "SBUF 2 KiB of 208 KiB (1.0 %) · PSUM 0 B of 16 KiB (0 %) per partition"
    assert findings == "0 findings on trn2 · other targets?"


def test_without_an_estimate_the_reason_is_said(lens: Client, uri: str) -> None:
    configure(lens)
    lens.open(uri, KERNEL.replace(": nt.tensor[(128, 512), nl.float32]", ""))
    assert titles(lens, uri)["k"][1:3] == ["no latency estimate: its shapes are not known", "no peaks of SBUF and PSUM"]
    lens.change(uri, KERNEL.replace("src=x)", "src=x, flavour=3)"))
    assert titles(lens, uri)["k"][1] == "no latency estimate: NKI002 stops it"
    assert titles(lens, uri)["k"][3].startswith("1 finding on trn2")


def test_a_half_typed_line_keeps_the_lenses(lens: Client, uri: str) -> None:
    lens.open(uri, KERNEL + "\n\ndef later(\n")
    assert [item["data"]["kind"] for item in lenses(lens, uri)] == ["run", "time", "memory", "findings"]


def test_other_targets_are_examined_when_asked_for(lens: Client, uri: str) -> None:
    configure(lens)
    text = KERNEL.replace("nisa.activation(", "nisa.exponential(dst=tile, src=tile)\n        nisa.activation(")
    lens.open(uri, text)
    assert titles(lens, uri)["k"][3] == "1 finding on trn2 · other targets?"
    counts = execute(lens, "nki-lab.targets", uri)["k"]
    assert counts["trn2"] == 1
    assert counts["trn3"] == 0
    assert any(item.get("method") == "workspace/codeLens/refresh" for item in lens.seen)
    assert titles(lens, uri)["k"][3] == f"1 finding on trn2, {counts['trn1']} on trn1, 0 on trn3"
    lens.change(uri, KERNEL)
    assert titles(lens, uri)["k"][3] == "0 findings on trn2 · other targets?"


def test_the_cell_of_a_file_runs(lens: Client, tmp_path: Path) -> None:
    configure(lens)
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").write_text("")
    path = package / "kernels.py"
    path.write_text(KERNEL)
    lens.open(path.as_uri(), KERNEL)
    found = execute(lens, "nki-lab.cell", path.as_uri(), "k")
    asked = next(item for item in lens.seen if item.get("method") == "window/showDocument")
    assert asked["params"]["uri"] == found["uri"]
    script = Path(unquote(urlsplit(found["uri"]).path))
    assert script.read_text() == found["cell"]
    assert found["cell"].count("# %%") == 2
    assert 'k, x=rng.standard_normal((128, 512)).astype(nl.float32), target="trn2"' in found["cell"]
    done = subprocess.run(
        [sys.executable, "-c", f"{found['cell']}\nassert run.outputs[0].shape == (128, 512)"],
        check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert execute(lens, "nki-lab.cell", path.as_uri(), "k", {"show": False})["uri"] is None


def test_the_script_of_a_file_writes_the_page_that_is_asked_for(lens: Client, tmp_path: Path) -> None:
    configure(lens)
    path, page = tmp_path / "kernels.py", tmp_path / "run.html"
    path.write_text(KERNEL)
    lens.open(path.as_uri(), KERNEL)
    found = execute(lens, "nki-lab.cell", path.as_uri(), "k", {"show": False, "page": str(page)})
    subprocess.run([sys.executable, "-c", found["cell"]], check=True, timeout=120, env={"PYTHONPATH": str(ROOT)})
    assert "Content-Security-Policy" in page.read_text()


def test_the_cell_of_a_file_with_an_odd_name_runs(lens: Client, tmp_path: Path) -> None:
    configure(lens)
    path = tmp_path / "é '; raise SystemExit(3) #.py"
    path.write_text(KERNEL)
    lens.open(path.as_uri(), KERNEL)
    text = execute(lens, "nki-lab.cell", path.as_uri(), "k", {"show": False})["cell"]
    done = subprocess.run(
        [sys.executable, "-c", f"{text}\nassert run.outputs[0].shape == (128, 512)"],
        check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [("file:///nowhere.py", "k"), ("", ""), ("file:///nowhere.py", "k; import os")])
def test_commands_about_nothing_give_nothing(lens: Client, arguments: tuple[str, str]) -> None:
    assert execute(lens, "nki-lab.cell", *arguments) is None
    assert execute(lens, "nki-lab.targets", arguments[0]) == {}


def test_a_kernel_that_is_not_there_has_no_cell(lens: Client, uri: str) -> None:
    lens.open(uri, KERNEL)
    assert execute(lens, "nki-lab.cell", uri, "k); import os; (k") is None


def test_odd_lenses_and_arguments_are_survived(lens: Client, uri: str) -> None:
    lens.open(uri, KERNEL)
    (first, *_) = lenses(lens, uri)
    for data in (None, 3, {}, {"uri": uri, "kernel": 4, "kind": "time"}, {"uri": "x", "kernel": "k", "kind": "memory"}):
        lens.answer(lens.ask("codeLens/resolve", {"range": first["range"], "data": data}))
    assert "error" in lens.answer(lens.ask("workspace/executeCommand", {"command": "nki-lab.cell"}))
    assert titles(lens, uri)["k"]


@pytest.mark.parametrize(("encoding", "width"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_places_are_in_the_editor_s_units(encoding: str, width: int) -> None:
    client = connect()
    client.initialize({"general": {"positionEncodings": [encoding]}})
    configure(client, hints={"trips": True})
    text = KERNEL.replace("    tile =", "    '😀'; tile =").replace(
        "    for i in range(4):", "    '😀'\n    for i in range(4):"
    )
    client.open("file:///k.py", text)
    client.pulled("file:///k.py")
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    asked = {"textDocument": {"uri": "file:///k.py"}, "range": where}
    found = {item["label"]: item["position"]["character"] for item in client.request("textDocument/inlayHint", asked)}
    assert found[": 128×512 float32 SBUF"] == len("    ''; tile") + width
    assert found[" 4×"] == len("    for i")
    assert [item["range"]["start"]["character"] for item in lenses(client, "file:///k.py")] == [4] * 4
    assert client.leave() == 0


def test_the_cell_of_a_notebook_needs_no_import(lens: Client) -> None:
    configure(lens)
    cell = "%%nki\n" + KERNEL[len(HEAD) :]
    notebook = Notebook(lens, "lenses", IMPORTS, cell)
    uri = notebook.cell(1)
    assert {item["range"]["start"]["line"] for item in lenses(lens, uri)} == {2}
    assert lenses(lens, notebook.cell(0)) == []
    assert titles(lens, uri)["k"][1].startswith("≈ ")
    text = execute(lens, "nki-lab.cell", uri, "k", {"show": False})["cell"]
    assert "sys.path" not in text
    compile(text, "cell", "exec")


def test_a_kernel_has_the_target_of_its_cell_in_lenses_and_commands(lens: Client) -> None:
    configure(lens)
    cells = [f"%%nki{options}\n" + KERNEL[len(HEAD) :].replace("def k(", f"def {name}(")
             for name, options in (("k", ""), ("m", " --target trn3"))]  # fmt: skip
    notebook = Notebook(lens, "targets", IMPORTS, *cells)
    (plain, _, _), (named, _, _) = (
        titles(lens, notebook.cell(number))[name][1:] for number, name in ((1, "k"), (2, "m"))
    )
    assert plain.endswith("on trn2")
    assert named.endswith("on trn3")
    assert titles(lens, notebook.cell(1))["k"][3] == "0 findings on trn2 · other targets?"
    assert titles(lens, notebook.cell(2))["m"][3] == "0 findings on trn3 · other targets?"
    assert [execute(lens, "nki-lab.target", notebook.cell(number)) for number in range(3)] == ["trn2", "trn2", "trn3"]
    assert "trn3" in execute(lens, "nki-lab.cell", notebook.cell(2), "m", {"show": False})["cell"]
    assert "trn3" not in execute(lens, "nki-lab.cell", notebook.cell(1), "k", {"show": False})["cell"]
    counts = execute(lens, "nki-lab.targets", notebook.cell(2))
    assert {name: list(found) for name, found in counts.items()} == {
        "k": ["trn2", "trn1", "trn3"], "m": ["trn3", "trn1", "trn2"],
    }  # fmt: skip
    assert titles(lens, notebook.cell(2))["m"][3].startswith("0 findings on trn3, ")


def test_shapes_that_are_not_known_are_examples(lens: Client, uri: str) -> None:
    lens.open(uri, KERNEL.replace(": nt.tensor[(128, 512), nl.float32]", ", n=3"))
    text = execute(lens, "nki-lab.cell", uri, "k", {"show": False})["cell"]
    assert "examples" in text
    assert "x=rng" in text
    assert "n=" not in text


def test_beta1_is_estimated_too(lens: Client, uri: str) -> None:
    configure(lens)
    text = """from neuronxcc import nki
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def k(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


k(np.zeros((128, 64), np.float32))
"""
    lens.open(uri, text)
    assert titles(lens, uri)["k"][1].startswith("≈ ")


def test_hints_follow_the_settings(lens: Client, uri: str, tmp_path: Path) -> None:
    configure(lens)
    lens.open(uri, KERNEL)
    tile, loop, call = line_of("tile = "), line_of("for i"), line_of("nisa.activation")
    assert hints(lens, uri)[tile] == ": 128×512 float32 SBUF"
    configure(lens, hints={"shapes": True, "bytes": True, "cost": True, "trips": True})
    lens.receive(lambda item: item.get("method") == "workspace/inlayHint/refresh")
    found = hints(lens, uri)
    assert found[tile] == ": 128×512 float32 SBUF 2 KiB/partition"
    assert found[loop] == " 4×"
    recording = profiled(tmp_path).recording
    busy = next(item.busy for item in digest(recording).lines if item.line == call + 1)
    assert found[call] == f"  {nanoseconds(busy / 1000)}"
    configure(lens, **{"hints.shapes": False, "hints.bytes": True})
    lens.receive(lambda item: item.get("method") == "workspace/inlayHint/refresh")
    assert hints(lens, uri)[tile] == ": 2 KiB/partition"
    assert loop not in hints(lens, uri)
    configure(lens)
    lens.receive(lambda item: item.get("method") == "workspace/inlayHint/refresh")


def test_another_target_is_another_figure(lens: Client, uri: str) -> None:
    configure(lens)
    lens.open(uri, KERNEL)
    assert titles(lens, uri)["k"][1].endswith("on trn2")
    before = len(lens.seen)
    configure(lens, target="trn3")
    if not any(item.get("method") == "workspace/codeLens/refresh" for item in lens.seen[before:]):
        lens.receive(lambda item: item.get("method") == "workspace/codeLens/refresh")
    assert titles(lens, uri)["k"][1].endswith("on trn3")
    configure(lens)


def test_partial_shapes_are_hinted_as_such(lens: Client, uri: str) -> None:
    configure(lens)
    lens.open(
        uri,
        f"""{HEAD}@nki.jit
def k(x):
    P, N = x.shape
    assert N <= 512
    tile = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
""",
    )
    assert hints(lens, uri)[10] == ": 128×N float32 SBUF"
    assert lens.hover(uri, 10, 5) == "`tile`: float32 in SBUF, 128 × N, N ≤ 512"


def test_codes_are_links_where_the_editor_draws_them(uri: str) -> None:
    client = connect()
    client.initialize({"textDocument": {"publishDiagnostics": {"codeDescriptionSupport": True}}})
    client.open(uri, KERNEL.replace("src=tile)", "src=tile, flavour=3)"))
    (found,) = client.until(uri, ["NKI002"])
    page = Path(unquote(urlsplit(found["codeDescription"]["href"]).path))
    assert "code: NKI002" in page.read_text()
    assert client.leave() == 0


def test_a_question_about_a_text_that_changes_is_not_answered_wrongly(lens: Client, uri: str) -> None:
    configure(lens)
    lens.open(uri, KERNEL)
    numbers = []
    for count in range(5, 25):
        item = next(item for item in lenses(lens, uri) if item["data"]["kind"] == "time")
        numbers.append(lens.ask("codeLens/resolve", item))
        lens.change(uri, KERNEL.replace("range(4)", f"range({count})"))
    for number in numbers:  # answers come in any order
        early = [item for item in lens.seen if item.get("id") == number and "method" not in item]
        answer = early[0] if early else lens.answer(number)
        assert answer["result"]["command"]["title"]
    last = titles(lens, uri)["k"][1]
    assert last.startswith("≈ ")
