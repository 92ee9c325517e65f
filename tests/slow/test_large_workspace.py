"""A folder of 500 files, 50 of which use NKI: the time to the first findings, and nothing at all when nobody types."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import PULLING, connect
from tests.lsp.processes import cpu_seconds, resident_bytes

KERNELS = Path(__file__).parents[1] / "kernels"
PLAIN = "".join(
    f"def function_{number}(a, b):\n    return [a + b for _ in range({number})]\n\n\n" for number in range(50)
)
READY_CPU_SECONDS = 8.0
"""Far above what it takes, and far below what reading every file several times would."""
IDLE_SECONDS = 20.0


@pytest.mark.slow
def test_500_files_are_ready_soon_and_cost_nothing_then(tmp_path: Path, record_property: Any) -> None:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    sources = sorted(KERNELS.glob("*.py"))[:50]
    for number, source in enumerate(sources):
        (tmp_path / f"kernel_{number}.py").write_bytes(source.read_bytes())
    for number in range(500 - len(sources)):
        folder = tmp_path / f"package_{number % 20}"
        folder.mkdir(exist_ok=True)
        (folder / f"module_{number}.py").write_text(PLAIN, encoding="utf-8")
    client = connect()
    folders = [{"uri": tmp_path.as_uri(), "name": "large"}]
    params = {"processId": None, "rootUri": None, "capabilities": PULLING, "workspaceFolders": folders}
    client.request("initialize", params)
    began = time.monotonic()
    client.notify("initialized", {})
    reports = client.request("workspace/diagnostic", {"previousResultIds": []}, 240)["items"]
    ready, busy = time.monotonic() - began, cpu_seconds(client.process.pid)
    assert len(reports) == 50
    uri = (tmp_path / "kernel_0.py").as_uri()
    client.open(uri, sources[0].read_text(encoding="utf-8"))
    client.pulled(uri)
    time.sleep(3)  # garbage is collected
    before = cpu_seconds(client.process.pid)
    time.sleep(IDLE_SECONDS)
    after = cpu_seconds(client.process.pid)  # the process that looked at the files may have ended
    idle = sum(spent - before.get(number, 0.0) for number, spent in after.items())
    print(f"ready after {ready:.2f} s with {busy} s of processor; idle {idle:.2f} s in {IDLE_SECONDS:.0f} s")
    print("resident", [size >> 20 for size in resident_bytes(client.process.pid)])
    record_property("ready_seconds", ready)
    record_property("idle_cpu_seconds", idle)
    assert client.leave() == 0
    assert sum(busy.values()) <= READY_CPU_SECONDS
    assert idle <= 0.05
