"""A Jupyter Server with the extension, as an installation starts it: by the configuration file alone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import websocket

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "nki_lab" / "jupyter" / "nki_lab.json"
TOKEN = "a-token-of-the-tests"
SECONDS = 45.0


class Line(websocket.WebSocket):  # type: ignore[misc]
    """A connection that closes its socket too where the server has closed first."""

    def close(self, *given: Any, **more: Any) -> None:
        super().close(*given, **more)
        self.shutdown()


@dataclass(frozen=True)
class Jupyter:
    """A running server: its port, its process, the folder of its notebooks."""

    port: int
    process: subprocess.Popen[bytes]
    folder: Path

    def get(self, path: str, token: str = TOKEN) -> tuple[int, Any]:
        """The status and the JSON that an address gives."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}", headers={"Authorization": f"token {token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, None

    def connect(self, token: str = TOKEN, **more: Any) -> websocket.WebSocket:
        """A connection to the language server."""
        query = f"?token={token}" if token else ""
        line = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)
        url = f"ws://127.0.0.1:{self.port}/nki-lab/lsp{query}"
        try:
            return websocket.create_connection(url, timeout=SECONDS, socket=line, class_=Line, **more)
        except websocket.WebSocketException:
            line.close()
            raise


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Jupyter]:
    """Start a server over a folder."""
    state = folder.parent / f"{folder.name}-state"
    enabled = state / "config" / "jupyter_server_config.d"
    enabled.mkdir(parents=True)
    shutil.copy(CONFIGURATION, enabled)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = int(place.getsockname()[1])
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(state / "config"), "JUPYTER_DATA_DIR": str(state / "data"),
        "JUPYTER_RUNTIME_DIR": str(state / "runtime"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }  # fmt: skip
    command = [
        sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}",
    ]  # fmt: skip
    log = state / "server.log"
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
    made = Jupyter(port, process, folder)
    try:
        end = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError):
                if made.get("api/status")[0] == 200:
                    break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text(encoding="utf-8")[-3000:])
            time.sleep(0.1)
        yield made
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    with started(tmp_path_factory.mktemp("notebooks")) as made:
        yield made
