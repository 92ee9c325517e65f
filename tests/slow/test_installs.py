"""The extras suffice: each is installed from the wheel into an environment of its own, which has nothing else.

Nothing here imports the checkout.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.browser.lab import ADD, START
from tests.codebase.test_docs import COMMAND, blocks, commands
from tests.lsp.client import Client
from tests.slow.environments import ROOT, Install, called, clean

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patience")]

BOTH = pytest.mark.parametrize("end", ["highest", "lowest"])
MAGIC = "%%nki --target trn2\n"
COPIED = f"""{MAGIC}@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out

copied(x)
"""
WIDE = f"""{MAGIC}@nki.jit
def wide(a):
    tile = nl.ndarray((256, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(tile, value=0.0)
    return a

wide(x)
"""
RUN = "run = nki_lab.run(add, x, x, target='trn2')\nrun"
CELLS = [START, ADD, COPIED, RUN, WIDE]
# Runs a notebook of these cells in the kernel of its own environment; gives the outputs of each cell by kind.
RUNNING = """
import json, sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
cells = []
try:
    for text in json.load(sys.stdin):
        kinds = {}
        def hook(message):
            content = message["content"]
            kinds.update(content.get("data", {}))
            if message["msg_type"] == "error":
                kinds["error"] = content["ename"] + ": " + content["evalue"]
            if message["msg_type"] == "stream":
                kinds[content["name"]] = kinds.get(content["name"], "") + content["text"]
        client.execute_interactive(text, output_hook=hook, timeout=120)
        cells.append(kinds)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps(cells))
"""


def test_what_the_readme_shows_runs(install: Install, tmp_path: Path) -> None:
    python = install("save", "perfetto")
    count = 0
    for block in blocks((ROOT / "README.md").read_text(encoding="utf-8")):
        if block.language == "python":
            file = tmp_path / block.options.get("file", "block.py")
            file.write_text(block.body, encoding="utf-8")
            called(python, file.name, folder=tmp_path)
            count += 1
        for command in commands(block):
            called(python, "-c", COMMAND, *command, folder=tmp_path)
            count += 1
    assert count > 6


@BOTH
def test_the_package_alone_checks_runs_and_writes_pages(install: Install, end: str, tmp_path: Path) -> None:
    python = install(end=end)
    first = next(item for item in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if item.language == "python")
    (tmp_path / "add.py").write_text(first.body + 'run.to_html("run.html")\nprint(run.report())\n', encoding="utf-8")
    assert "Vector" in called(python, "add.py", folder=tmp_path)
    assert (tmp_path / "run.html").stat().st_size > 10_000
    called(python, "-c", COMMAND, "check", "add.py", "--target", "trn2", folder=tmp_path)
    said = called(python, "-c", COMMAND, "doctor", folder=tmp_path)
    assert re.search(r"^pyarrow +not installed$", said, re.MULTILINE)


@BOTH
def test_the_notebook_extra_runs_cells_and_brings_the_extension_and_the_server(
    install: Install, end: str, tmp_path: Path
) -> None:
    python = install("notebook", end=end)
    cells = json.loads(called(python, "-c", RUNNING, folder=tmp_path, given=json.dumps(CELLS)))
    assert [item["error"] for item in cells[:4] if "error" in item] == []
    assert "application/vnd.nki-lab.run+json" in cells[3]
    assert "text/html" in cells[3]
    assert "NKI204" in cells[4]["text/html"]
    assert "NKI204" in cells[4]["error"]
    lines = [line for line in listed(python, "labextension").splitlines() if "nki-lab" in line]
    assert lines
    assert "enabled" in lines[0]
    assert "OK" in lines[0]
    assert re.search(r"nki_lab\.jupyter\s+enabled.*nki_lab\.jupyter\s+OK", listed(python, "server", "extension"), re.S)
    found = called(python, "-c", "from nki_lab.jupyter import examples, handlers\n"
                   "print(examples.names(), repr(handlers.missing()))", folder=tmp_path)  # fmt: skip
    assert "01_first_kernel.ipynb" in found
    assert found.endswith("''\n")
    viewed = [START, ADD, "run = nki_lab.run(add, x, x, target='trn2')\nrun.view()", "run.save('run.nkirec')"]
    widget = json.loads(called(python, "-c", RUNNING, folder=tmp_path, given=json.dumps(viewed)))
    assert "application/vnd.jupyter.widget-view+json" in widget[2]
    assert "error" not in widget[3]


def listed(python: Path, *kind: str) -> str:
    """Return what Jupyter lists of its extensions, without the colours."""
    command = [str(python), "-m", "jupyter", *kind, "list"]
    done = subprocess.run(command, env=clean(python), capture_output=True, text=True, check=True)
    return re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr)


def test_a_plain_ipykernel_shows_html(install: Install, tmp_path: Path) -> None:
    python = install(more=("ipykernel",))
    cells = json.loads(called(python, "-c", RUNNING, folder=tmp_path, given=json.dumps([*CELLS, "run.view()"])))
    assert [item["error"] for item in cells[:4] if "error" in item] == []
    assert "<" in cells[3]["text/html"]
    assert "image/png" in cells[2]
    assert "NKI204" in cells[4]["text/html"]
    assert "NKI204" in cells[4]["error"]
    assert "nki-lab[widgets]" in str(cells[5])


def test_the_views_need_no_jupyterlab(install: Install, tmp_path: Path) -> None:
    python = install("widgets")
    cells = json.loads(called(python, "-c", RUNNING, folder=tmp_path, given=json.dumps([*CELLS, "run.view()"])))
    assert "application/vnd.jupyter.widget-view+json" in cells[5]
    assert "NKI204" in cells[4]["text/html"]
    assert "jupyterlab " not in called(python, "-m", "pip", "list", folder=tmp_path)


@BOTH
def test_the_plots_extra_draws_every_chart(install: Install, end: str, tmp_path: Path) -> None:
    python = install("plots", end=end)
    first = next(item for item in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if item.language == "python")
    code = (
        "import warnings\nwarnings.simplefilter('error')\nfrom nki_lab import plots\n"
        "names = ['bandwidth', 'dma_sizes', 'memory', 'roofline', 'stalls', 'utilisation']\n"
        "charts = [getattr(plots, name)(run) for name in names]\n"
        "charts.append(plots.compare(run.compare(nki_lab.run(add, a, b, target='trn1'))))\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as one:\n"
        "    points = nki_lab.sweep(add, {'target': ['trn1', 'trn2']}, args=(a, b), executor=one)\n"
        "charts.append(plots.sweep(points))\n"
        "assert len(charts) + len(['save', 'for_summary', 'link', 'with_charts']) == len(plots.__all__)\n"
        "plots.save(charts, 'charts.html')\n"
    )
    (tmp_path / "draw.py").write_text(first.body + code, encoding="utf-8")
    called(python, "draw.py", folder=tmp_path)
    page = (tmp_path / "charts.html").read_text(encoding="utf-8")
    assert "Where the time goes" in page
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    assert "pandas" not in called(python, "-m", "pip", "list", folder=tmp_path)


@BOTH
def test_the_language_server_starts_and_answers(install: Install, end: str, tmp_path: Path) -> None:
    python = install("lsp", end=end)
    command = [str(python), "-P", "-m", "nki_lab.lsp"]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, cwd=tmp_path, env=clean(python))
    assert process.stdin is not None
    assert process.stdout is not None
    client = Client(process.stdout, process.stdin, process)  # type: ignore[arg-type]
    client.initialize()
    uri = (tmp_path / "kernel.py").as_uri()
    client.open(
        uri,
        "import nki\n\n\n@nki.jit\ndef kernel(a):\n    try:\n        return a\n    except ValueError:\n        return a\n",
    )
    assert client.published(uri)
    assert client.leave() == 0


@pytest.mark.parametrize(
    ("extra", "made"),
    [
        ("torch", "import torch\na = torch.ones(128, 8, dtype=torch.bfloat16)\nkind = torch.Tensor"),
        ("jax", "import jax, jax.numpy as jnp\na = jnp.ones((128, 8), jnp.bfloat16)\nkind = jax.Array"),
    ],
)
def test_arrays_of_a_framework_go_through(install: Install, extra: str, made: str, tmp_path: Path) -> None:
    python = install(extra)
    code = (
        f"import nki_lab\nnki_lab.activate()\nimport nki, nki.language as nl\n{made}\n\n\n@nki.jit\ndef double(a):\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n    tile = nl.load(a)\n"
        "    nl.store(out, nl.add(tile, tile))\n    return out\n\n\n"
        "(out,) = nki_lab.run(double, a, target='trn2').outputs\nassert isinstance(out, kind), type(out)\n"
        "assert out.dtype == a.dtype and bool((out == 2).all())\n"
    )
    (tmp_path / "script.py").write_text(code, encoding="utf-8")
    called(python, "script.py", folder=tmp_path)
