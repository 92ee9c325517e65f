"""Type checkers with the stubs: basedpyright (pyright's own engine, in its standard mode) and ty.

They read the stubs as they are installed, as packages beside NumPy in an environment, and as `nki-lab stubs` writes them.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from lsprotocol import types
from pygls.lsp.client import BaseLanguageClient

from nki_lab import cli
from scripts.pages.blocks import blocks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FAULTY = "fault_"
"""Beginning of the names of test kernels that are wrong on purpose."""

HEAD = """import nki
import nki.collectives as nccl
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt
import numpy as np
"""
BETA1 = """from neuronxcc import nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
"""
RIGHT = f"""{HEAD}

@nki.jit
def annotated(a: nt.tensor[(128, 512), nl.bfloat16], b: nt.tensor[128, 512], c: nl.ndarray, d: nki.tensor, n: nki.dtype):
    view: nt.tensor[128, 1] = a[:, 0:1]
    result = nl.ndarray(a.shape, dtype=n, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=b[nl.ds(0, 128), :])
    nisa.activation(dst=result, op=nl.exp, data=d, bias=view, scale=0.5)
    nisa.iota(c, [[1, 512]], offset=nisa.register_alloc(3))
    for i in nl.dynamic_range(4):
        nisa.tensor_copy(dst=c, src=d.select(1, i))
    return nl.add(result, c) + 1.0


@nki.jit(experimental_flags="x")
def launched(a, b=np.zeros((4, 4), dtype=nl.bfloat16)):
    return annotated(a, b, a, b, nki.dtype.float32)


launched[2](np.zeros((128, 512), nl.float32))
nki.simulate(annotated)(1, 2, 3, 4, 5)


class Tiles(nl.NKIObject):
    tile: nl.NkiTensor
    scale = 2.0


Tiles(tile=nl.zeros((128, 4), nl.float32), scale=3.0)
"""
RIGHT_BETA1 = f"""{BETA1}

@nki.jit(mode="simulation")
def doubled(a: nt.tensor, out: nt.mutable_tensor, q: nt.tensor[nt.mutable]):
    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
    grid = nl.mgrid[0:128, 0:512]
    tile = nl.load(a[i_p, i_f], mask=(i_p < 100) & (i_f + 1 < 200))
    total = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        total += nisa.nc_matmul(tile, tile * 2)
    nl.store(out[grid.p, grid.x], value=total.astype(nl.bfloat16))
    return nisa.tensor_tensor(tile, tile, op=nl.add, dtype=nl.float32, mask=None)


doubled[nl.spmd_dim(nl.nc(2), 4)](1, 2, 3)
"""
WRONG = (
    ("nisa.dma_copy(dst=t, source=t)", "source"),
    ("nisa.dma_copy(dst=t)", "src"),
    ("nisa.nc_matmul(t, t, t, perf_mode=nisa.matmul_perf_mode.quad)", "quad"),
    ("nisa.tensor_copy(t, t, engine=nisa.engine.vektor)", "vektor"),
    ("nisa.tensor_copy(t, t, engine='vector')", "engine"),
    ("nisa.tensor_tensor(t, t, t, op=nl.float32)", "NkiDtype"),
    ("nl.ndarray((128, 4), dtype=nl.flaot32, buffer=nl.sbuf)", "flaot32"),
    ("nl.ndarray((128, 4), dtype=nl.float32, bufer=nl.sbuf)", "bufer"),
    ("t.shap", "shap"),
    ("nl.tile_size.pmin", "pmin"),
    ("nisa.memset(t, value='1')", "Literal"),
    ("nccl.all_reduce([t], [t], None, opp=nl.add)", "opp"),
    ("nl.arange(128)", "arange"),
)
"""Lines that are wrong, with the word that a message has to name."""


class Found(NamedTuple):
    """A message of a checker."""

    file: str
    line: int
    rule: str
    text: str


Check = Callable[[Path], list[Found]]


def program(name: str) -> str:
    """The path of a checker, which `make test-all` installs beside Python."""
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert path is not None, f"pip install -r requirements/checkers.txt brings {name}"
    return path


def environment(folder: Path) -> Path:
    """An environment with the stubs as the wheel installs them, and the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages") or folder.glob("Lib/site-packages")
    for name in ("nki-stubs", "neuronxcc-stubs"):
        shutil.copytree(ROOT / "stubs" / name, packages / name)
    (packages / "outer.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n", encoding="utf-8")
    return folder


def basedpyright(project: Path, python: Path | None) -> list[Found]:
    """What basedpyright finds in a project with the environment `python`; warnings about missing sources apart."""
    settings = {"typeCheckingMode": "standard", "reportMissingModuleSource": False, "reportDeprecated": "warning"}
    (project / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    given = ["--pythonpath", str(python / "bin" / "python")] if python is not None else []
    command = [program("basedpyright"), "--outputjson", *given, "--project", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, check=False)
    return [
        Found(Path(item["file"]).name, item["range"]["start"]["line"] + 1, item.get("rule", ""), item["message"])
        for item in json.loads(done.stdout)["generalDiagnostics"]
    ]


def ty(project: Path, python: Path | None) -> list[Found]:
    """What ty finds in a project with the environment `python`, or with stubs in `typings`."""
    given = ["--python", str(python)] if python is not None else ["--extra-search-path", "typings"]
    command = [program("ty"), "check", "--output-format", "concise", "--color", "never", *given, "."]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, check=False)
    assert done.returncode in (0, 1), done.stderr
    line = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+):\d+: \w+\[(?P<rule>[\w-]+)\] (?P<text>.*)")
    return [
        Found(Path(item["file"]).name, int(item["line"]), item["rule"], item["text"])
        for item in line.finditer(done.stdout)
    ]


CHECKERS = {"basedpyright": basedpyright, "ty": ty}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture(params=CHECKERS)
def check(request: pytest.FixtureRequest, installed: Path) -> Check:
    checker = CHECKERS[request.param]
    return lambda project: checker(project, installed)


def lines(statements: Iterator[str] | tuple[str, ...]) -> str:
    body = "".join(f"    {item}\n" for item in statements)
    return f"{HEAD}\n\n@nki.jit\ndef kernel(a):\n    t = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)\n{body}"


DEPRECATED = ("reportDeprecated", "deprecated")
NEWER = ("reportPossiblyUnbound", "possibly-unresolved-reference")
"""Rules about names that other branches bind, which have nothing to do with stubs."""


def test_right_code_has_no_findings(check: Check, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "beta1.py").write_text(RIGHT_BETA1, encoding="utf-8")
    assert not [item for item in check(tmp_path) if item.rule not in DEPRECATED]


def test_each_mistake_is_found(check: Check, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(lines(item for item, _ in WRONG), encoding="utf-8")
    found = check(tmp_path)
    first = len(lines(()).splitlines()) + 1
    for number, (text, word) in enumerate(WRONG, first):
        assert any(item.line == number and word in item.text for item in found), (text, found)
    assert {item.line for item in found} == set(range(first, first + len(WRONG)))


def test_deprecated_names_are_marked(check: Check, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(
        lines(("for i in nl.affine_range(4): pass", "nl.tile_size.psum_fmax")), encoding="utf-8"
    )
    assert [
        ("write" in item.text or "eprecated" in item.text) for item in check(tmp_path) if item.rule in DEPRECATED
    ] == [
        True,
        True,
    ]


def test_examples_and_sample_kernels_have_no_findings(check: Check, tmp_path: Path) -> None:
    for folder in ("examples/kernels", "tests/kernels"):
        for file in (ROOT / folder).glob("*.py"):
            if not file.name.startswith(FAULTY):
                shutil.copy(file, tmp_path / file.name)
    assert not [item for item in check(tmp_path) if item.rule not in (*DEPRECATED, *NEWER)]


def test_documents_have_no_findings(check: Check, tmp_path: Path) -> None:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, document in enumerate(documents):
        found = [item for item in blocks(document.read_text(encoding="utf-8")) if item.language == "python"]
        text = "\n\n".join(item.body for item in found)
        (tmp_path / f"d{number:02}_{document.stem.replace('-', '_')}.py").write_text(text, encoding="utf-8")
    ours = re.compile(r"\b(nki|neuronxcc|NkiTensor|NkiDtype|Kernel|VirtualRegister|nl|nisa)\b")
    assert not [item for item in check(tmp_path) if item.rule not in DEPRECATED and ours.search(item.text)]


@pytest.mark.parametrize("name", CHECKERS)
def test_stubs_in_a_folder_do_the_same(name: str, tmp_path: Path) -> None:
    assert cli.main(["stubs", str(tmp_path / "typings")]) == 0
    text = "import nki.isa as nisa\n\nnisa.dma_copy(dst=1, source=2)\n"
    (tmp_path / "wrong.py").write_text(text, encoding="utf-8")
    found = CHECKERS[name](tmp_path, None)
    assert any("source" in item.text for item in found), found
    assert not [item for item in found if item.file != "wrong.py"]


def test_the_stubs_themselves_have_no_findings(check: Check, tmp_path: Path) -> None:
    for name in ("nki-stubs", "neuronxcc-stubs"):
        shutil.copytree(ROOT / "stubs" / name, tmp_path / name)
    assert not check(tmp_path)


def test_hovers_show_the_declaration(installed: Path, tmp_path: Path) -> None:
    text = f"{HEAD}\nnisa.nc_matmul\nnl.ndarray((1, 2), nl.float32)\nnisa.dge_mode\nnl.float32\nnl.psum\n"
    file = tmp_path / "hovered.py"
    file.write_text(text, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"venvPath": str(installed.parent), "venv": installed.name}), encoding="utf-8"
    )
    first = HEAD.count("\n") + 1
    shown = asyncio.run(hovers(file, text, [(first + row, 6) for row in range(5)]))
    wanted = ("stationary", "strided view", "Sources of the descriptors", "4 bytes an element", "PSUM")
    assert [word for word, said in zip(wanted, shown, strict=True) if word.lower() not in said.lower()] == []


async def hovers(file: Path, text: str, places: list[tuple[int, int]]) -> list[str]:
    """What basedpyright's language server shows at some places of a file."""
    client = BaseLanguageClient("test", "1")
    await client.start_io(program("basedpyright-langserver"), "--stdio")
    try:
        folder = types.WorkspaceFolder(uri=file.parent.as_uri(), name="project")
        capabilities = types.ClientCapabilities()
        await client.initialize_async(types.InitializeParams(capabilities=capabilities, workspace_folders=[folder]))
        client.initialized(types.InitializedParams())
        item = types.TextDocumentItem(uri=file.as_uri(), language_id="python", version=1, text=text)
        client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        shown = []
        for line, column in places:
            place = types.Position(line=line, character=column)
            answer = await client.text_document_hover_async(
                types.HoverParams(text_document=types.TextDocumentIdentifier(uri=file.as_uri()), position=place)
            )
            contents = answer.contents if answer is not None else ""
            shown.append(str(getattr(contents, "value", contents)))
        await client.shutdown_async(None)
        client.exit(None)
        return shown
    finally:
        await client.stop()
