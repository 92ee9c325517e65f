"""Minutes of cells and of typing: memory stays bounded. `NKI_LAB_SOAK_MINUTES` says how many minutes each takes."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tests.lsp.client import connect
from tests.lsp.processes import resident_bytes
from tests.shells import ipython
from tests.slow.test_endurance import PATIENT, Typist, modules

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patience")]

MINUTES = float(os.environ.get("NKI_LAB_SOAK_MINUTES", "10"))
MOST_BYTES = 3000
"""Bytes that a `%%nki` cell keeps beyond those of the same cell without the magic."""
WARM = 0.4
"""The part of the time after which caches have what they hold at most."""
SERVER_GROWTH = 30 << 20
"""Bytes that a server and its processes may grow by in the second half of the time."""
CELL = """import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0={}.0)
    nisa.dma_copy(dst=out, src=t)
    return out
kernel(x);
"""


def soak(magic: str, seconds: float) -> None:
    """Run cells for so long, and print how many of them were measured and the bytes that each left behind."""
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as home, ipython(Path(home)) as shell:

        def run(source: str) -> None:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                shell.run_cell(source, store_history=True)
            shell.history_manager.outputs.clear()  # a kernel's publisher sends outputs, and keeps none

        run("import numpy as np\nx = np.ones((128, 64), np.float32)")
        begun, count, first, before = time.monotonic(), 0, 0, 0
        while (passed := time.monotonic() - begun) < seconds:
            run(magic + CELL.format(count))
            count += 1
            if not before and passed > WARM * seconds and count > 600:
                gc.collect()
                first, before = count, process.memory_info().rss
        gc.collect()
        print(count - first if before else 0, (process.memory_info().rss - before) / max(1, count - first))


def bytes_a_cell(magic: str) -> float:
    command = [sys.executable, "-m", "tests.slow.test_soak", magic, str(MINUTES * 60)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    count, each = done.stdout.split()
    assert int(count) >= 200, f"{count} cells are too few to tell: NKI_LAB_SOAK_MINUTES gives more time"
    print(f"{magic.strip() or 'plain'}: {count} cells, {float(each):,.0f} bytes each")
    return float(each)


def test_a_cell_of_nki_keeps_little_more_than_one_of_ipython() -> None:
    plain, ours = bytes_a_cell(""), bytes_a_cell("%%nki\n")
    assert ours - max(0.0, plain) <= MOST_BYTES


def test_a_server_stays_as_large_as_it_was_after_half_of_the_time(tmp_path: Path) -> None:
    client = connect()
    client.initialize(PATIENT)
    files = list(modules(tmp_path))
    for path, text in files:
        path.write_text(text, encoding="utf-8")
    typists = [Typist(client, path.as_uri(), text, seed) for seed, (path, text) in enumerate(files)]
    begun, half, number = time.monotonic(), 0, 0
    while (passed := time.monotonic() - begun) < MINUTES * 60:
        typist = typists[number % len(typists)]
        typist.edit()
        number += 1
        if number % 4 == 0:
            client.answer(typist.ask())
        if number % 20 == 0:
            client.pulled(typist.uri)
        client.seen.clear()
        if not half and passed > MINUTES * 30:
            half = sum(resident_bytes(client.process.pid))
    grown = sum(resident_bytes(client.process.pid)) - half
    assert client.leave() == 0
    print(f"{number} edits: {grown / 2**20:,.1f} MiB in the second half, {half / 2**20:,.1f} before it")
    assert grown <= SERVER_GROWTH


if __name__ == "__main__":
    soak(sys.argv[1], float(sys.argv[2]))
