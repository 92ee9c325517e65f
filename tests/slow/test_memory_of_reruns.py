"""A cell that is run a hundred times: what stays in the kernel, and in the page of a real JupyterLab.

`pytest -s` prints the figures. Rounds are compared with each other, so that what is filled once does not count.
"""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from jupyter_client.manager import start_new_kernel

from tests.browser.lab import OTHER_CLIENT, SECONDS, START, Lab, Window, chromium, lab, window

LOOP: Final = """%%nki --target trn2
@nki.jit
def rows(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(6):
        tile = nl.load(a[i * 128 : i * 128 + 128])
        twice = nl.multiply(tile, FACTOR)
        nl.store(out[i * 128 : i * 128 + 128], twice)
    return out
rows(np.ones((768, 256), np.float32));"""
MEASURED: Final = """import ctypes, gc
for _ in range(3):
    gc.collect()
ctypes.CDLL(None).malloc_trim(0)
with open("/proc/self/smaps_rollup") as lines:
    told = next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
print((len(gc.get_objects()), told / 1024))"""
"""Prints the objects and the MiB of a process. Pages of libraries do not count, which are its own as long as no other
process has the library; nor does memory that is free, of which glibc keeps one block of the size of the largest."""
ASK: Final = """async code => {
  const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
  const asked = kernel.requestExecute({ code, store_history: false });
  let text = '';
  asked.onIOPub = message => { if (message.header.msg_type === 'stream') text += message.content.text; };
  await asked.done;
  return text;
}"""
"""Runs code in the kernel of the page beside its cells: JupyterLab itself keeps 260 nodes and 800 listeners each time
that another cell becomes the active one, whatever the cells have."""
HEAP: Final = "() => { gc(); gc(); return performance.memory.usedJSHeapSize / 2 ** 20; }"

RUNS: Final = 100
ROUND: Final = 20

OBJECTS: Final = 12
"""Python objects that a run may leave, IPython's own history among them; before programs, plans, trees and widgets of
former cells were let go it were 360."""
KERNEL: Final = 3.0
"""MiB that the kernel may grow from the first 20 runs to the last."""
PAGE: Final = 1.5
"""MiB that the heap of the page may grow from the runs 40 to 60 to the last 20: most of it is code that V8 compiles."""
NODES: Final = 500
"""Nodes of documents that the page may have gained by then, those that are attached nowhere too; a view has thousands."""


class Kernel:
    """A kernel without a page."""

    def __init__(self) -> None:
        self._manager, self._client = start_new_kernel(kernel_name="python3")

    def run(self, code: str) -> str:
        """Run a cell; returns what it printed, and fails with it."""
        texts: list[str] = []

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                texts.append(content["text"])
            assert message["msg_type"] != "error", content

        self._client.execute_interactive(code, output_hook=take, timeout=SECONDS)
        return "".join(texts)

    def measured(self) -> tuple[int, float]:
        """Return the tracked objects and the MiB of the kernel."""
        found: tuple[int, float] = ast.literal_eval(self.run(MEASURED))
        return found

    def end(self) -> None:
        """End it."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run again", "edited", "view"])
def test_a_kernel_is_as_large_after_a_hundred_runs(
    kernel: Kernel, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.run(START)
    kernel.run(LOOP.replace("FACTOR", "2.0").replace("rows(np", "run = nki_lab.run(rows, np"))
    told = []
    for number in range(RUNS + 1 + ROUND * (3 if kind == "view" else 0)):  # 64 views are there at a time
        factor = 2 + number / RUNS if kind == "edited" else 2.0
        kernel.run("run.view()" if kind == "view" else LOOP.replace("FACTOR", str(factor)))
        if number % ROUND == 0:
            told.append(kernel.measured())
    kept = told[-(RUNS // ROUND - 1 if kind != "view" else 3) :]
    left = (kept[-1][0] - kept[0][0]) / (ROUND * (len(kept) - 1))
    with capsys.disabled():
        print(f"\n{kind}: {left:.1f} objects a run, MiB {', '.join(f'{item[1]:.1f}' for item in told)}")
    assert left <= OBJECTS
    assert min(item[1] for item in told[-2:]) - told[1][1] <= KERNEL


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Lab, Window]]:
    with lab(tmp_path, without=(OTHER_CLIENT,)) as server, chromium() as browser, window(browser) as tab:
        yield server, tab


@pytest.mark.slow
def test_a_page_is_as_large_after_a_hundred_runs(
    opened: tuple[Lab, Window], capsys: pytest.CaptureFixture[str]
) -> None:
    server, tab = opened
    tab.open(server, server.notebook("again.ipynb", START, LOOP.replace("FACTOR", "2.0")))
    tab.run(0)
    protocol = tab.page.context.new_cdp_session(tab.page)
    heaps, nodes, sizes = [], [], []
    for number in range(RUNS + 1):
        tab.run(1)
        tab.visualizer()
        if number % 5 == 0:
            protocol.send("HeapProfiler.collectGarbage")
            heaps.append(float(tab.page.evaluate(HEAP)))
            nodes.append(int(protocol.send("Memory.getDOMCounters")["nodes"]))
        if number % ROUND == 0:
            sizes.append(ast.literal_eval(str(tab.page.evaluate(ASK, MEASURED)))[1])
    with capsys.disabled():
        print(f"\nheap {', '.join(f'{item:.1f}' for item in heaps)} MiB; nodes {nodes}; kernel {sizes} MiB")
    assert statistics.median(heaps[-4:]) - statistics.median(heaps[8:12]) <= PAGE
    assert min(nodes[-5:]) - min(nodes[8:13]) <= NODES
    assert min(sizes[-2:]) - sizes[1] <= KERNEL
