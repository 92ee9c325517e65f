"""The extras suffice: each is installed from the wheel into an environment of its own, which has nothing else.

pip fetches the packages: the newest that pyproject.toml allows, or with `lowest` the oldest direct ones; torch and jax are
those of requirements/frameworks.txt. Nothing here imports the checkout.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.browser.lab import ADD, START, Lab, chromium, free_port, wait, window
from tests.codebase.test_docs import COMMAND, blocks, commands
from tests.lsp.client import Client

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    """The script that builds the wheel and makes environments."""
    spec = importlib.util.spec_from_file_location("test_matrix_script", ROOT / "scripts" / "test_matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


@pytest.fixture(autouse=True)
def patience() -> None:
    """Fetching packages takes as long as the network does; what is called here has limits of its own."""
    faulthandler.cancel_dump_traceback_later()


Install = Callable[..., Path]


@pytest.fixture(scope="module")
def install(matrix: ModuleType, project: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes an environment with extras and gives its interpreter."""
    folder = tmp_path_factory.mktemp("installs")
    wheel = matrix.build(folder)
    made: dict[tuple[str, ...], Path] = {}

    def environment(*extras: str, end: str = "highest", more: tuple[str, ...] = ()) -> Path:
        key = (*extras, end, *more)
        if key not in made:
            venv = folder / "-".join(key)
            matrix.called([sys._base_executable, "-m", "venv", str(venv)])
            pins = (
                []
                if end == "highest"
                else [f"{item.name}=={matrix.oldest_wheel(venv, item)}" for item in direct(extras)]
            )
            wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
            constraints = ["--constraint", str(ROOT / "requirements" / "frameworks.txt")]
            matrix.pip(venv, "install", "--quiet", wanted, *pins, *more, *constraints)
            matrix.called([str(matrix.python_in(venv)), "-m", "pip", "check"])
            made[key] = matrix.python_in(venv)
        return made[key]

    def direct(extras: tuple[str, ...]) -> list[Requirement]:
        table = project["optional-dependencies"]
        texts = [*project["dependencies"], *(text for name in extras for text in table[name])]
        inner = [name for text in texts for name in Requirement(text).extras]
        return [item for item in map(Requirement, texts) if not item.extras] + (
            direct(tuple(inner))[2:] if inner else []
        )

    return environment


def called(python: Path, *arguments: str, folder: Path, given: str = "") -> str:
    """The output of Python in `folder`."""
    done = subprocess.run(
        [str(python), *arguments], cwd=folder, env=clean(python), input=given, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return str(done.stdout)


def clean(python: Path) -> dict[str, str]:
    """Variables without the checkout, and with the environment's commands in front."""
    module = sys.modules["test_matrix_script"]
    found: dict[str, str] = module.environment()
    return found | {"PATH": f"{python.parent}:{found.get('PATH', '')}"}


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
    assert "vector" in called(python, "add.py", folder=tmp_path)
    assert (tmp_path / "run.html").stat().st_size > 10_000
    called(python, "-c", COMMAND, "check", "add.py", "--target", "trn2", folder=tmp_path)
    said = called(python, "-c", COMMAND, "doctor", folder=tmp_path)
    assert "pyarrow      not installed" in said


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
    listed = subprocess.run(
        [str(python), "-m", "jupyter", "labextension", "list"],
        env=clean(python),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in (listed.stdout + listed.stderr).splitlines() if "nki-lab" in line]
    assert lines
    assert "enabled" in lines[0]
    assert "OK" in lines[0]
    listed = subprocess.run(
        [str(python), "-m", "jupyter", "server", "extension", "list"],
        env=clean(python),
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"nki_lab\.jupyter \S*\s*enabled", listed.stdout + listed.stderr)
    assert re.search(r"nki_lab\.jupyter \S*\s*OK", listed.stdout + listed.stderr)
    found = called(python, "-c", "from nki_lab.jupyter import examples, handlers\n"
                   "print(examples.names(), repr(handlers.missing()))", folder=tmp_path)  # fmt: skip
    assert "01_first_kernel.ipynb" in found
    assert found.endswith("''\n")
    viewed = [START, ADD, "run = nki_lab.run(add, x, x, target='trn2')\nrun.view()", "run.save('run.nkirec')"]
    widget = json.loads(called(python, "-c", RUNNING, folder=tmp_path, given=json.dumps(viewed)))
    assert "application/vnd.jupyter.widget-view+json" in widget[2]
    assert "error" not in widget[3]


def test_notebook_7_has_squiggles_and_fixes(install: Install, tmp_path: Path) -> None:
    python = install("notebook", more=("notebook==7.6.5",))
    shown = Lab(f"http://127.0.0.1:{(port := free_port())}", tmp_path)
    name = shown.notebook("fault.ipynb", START, COPIED.replace("nl.load", "nl.loat"))
    folders = {f"JUPYTER_{kind}_DIR": str(tmp_path / ".state" / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    command = [
        str(python), "-m", "notebook", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
        "--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path}",
    ]  # fmt: skip
    log = tmp_path / "notebook.log"
    with log.open("w", encoding="utf-8") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=clean(python) | folders)
    try:
        wait(f"{shown.url}/api/status", server, log)
        with chromium() as browser, window(browser) as tab:
            tab.page.goto(f"{shown.url}/notebooks/{name}")
            squiggle = tab.page.locator(".nki-lab-squiggle.nki-lab-error").first
            squiggle.wait_for()
            assert squiggle.text_content() == "nl.loat"
            squiggle.hover()
            tab.page.locator(".nki-lab-card .nki-lab-fix").first.click()
            squiggle.wait_for(state="detached")
            assert tab.requests == []
    finally:
        server.terminate()
        server.wait(20)


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
        "charts = [getattr(plots, name)(run) for name in plots.__all__ if name != 'save']\n"
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
