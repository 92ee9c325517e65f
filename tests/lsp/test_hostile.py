"""Whatever comes in, the server stays, and it ends when and as it should."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lsp.client import PULLING, Client, codes, connect, connect_tcp, start
from tests.lsp.processes import children
from tests.lsp.test_server import FAULTY, SLOW, VERY_SLOW

pytestmark = pytest.mark.extended

KERNELS = Path(__file__).parents[1] / "kernels"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe nonsense \n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: 4\r\n\r\nnull",
        b'Content-Length: 17\r\n\r\n{"jsonrpc":"1.0"}',
        b'Content-Length: 16\r\n\r\n{"jsonrpc":"2.0}',
        b'Content-Length: 45\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"no/such"}  ',
        b'Content-Length: 56\r\n\r\n{"jsonrpc":"2.0","method":"textDocument/didOpen"}       ',
        b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000,
        b"Content-Length: 4\r\n\r\n\xff\xff\xff\xff",
    ],
    ids=range(11),
)
def test_garbage_on_the_line_is_passed_over(client: Client, uri: str, garbage: bytes) -> None:
    client.raw(garbage)
    client.open(uri, FAULTY)
    client.until(uri, ["NKI201"])


TOO_SHORT = '{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"é":1}}'


@pytest.mark.parametrize(
    "odd",
    [
        b"Content-Length: %d\r\n\r\n%s" % (len(TOO_SHORT), TOO_SHORT.encode()),
        b"Content-Length: 9\r\n\r\n%s" % TOO_SHORT.encode(),
        b"Content-Length: 2\n\n{}",
        b"content-length:2\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{ }",
        b"Content-Length: 99999999999999999999\r\n\r\n{}",
        b"Content-Length: 0\r\n\r\n{}",
    ],
    ids=["characters", "short", "bare", "lower", "twice", "huge", "zero"],
)
def test_a_wrong_length_costs_its_message_alone(odd: bytes) -> None:
    client = connect()
    client.initialize()
    client.raw(odd)
    assert client.request("workspace/symbol", {"query": "a"}) == []
    assert client.leave() == 0


def test_a_length_in_characters_is_said_to_be_wrong(client: Client) -> None:
    client.raw(b"Content-Length: %d\r\n\r\n%s" % (len(TOO_SHORT), TOO_SHORT.encode()))
    told = client.receive(lambda item: item.get("method") == "window/logMessage")["params"]["message"]
    assert "Content-Length has to count bytes" in told


def over_tcp() -> tuple[Client, subprocess.Popen[bytes]]:
    """A client that is connected over TCP and initialized, and the server's process."""
    process = start("--tcp", "127.0.0.1:0")
    assert process.stderr is not None
    host, port = process.stderr.readline().decode().split()[-1].rsplit(":", 1)
    client = connect_tcp(process, host, int(port))
    client.initialize()
    return client, process


def test_a_wrong_length_over_tcp_costs_its_message_alone() -> None:
    client, process = over_tcp()
    client.raw(b"Content-Length: 9\r\n\r\n" + b" " * 200_000)
    assert client.request("workspace/symbol", {"query": "a"}) == []
    assert client.leave() == 0
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def test_requests_after_shutdown_are_refused() -> None:
    client = connect()
    client.initialize()
    client.request("shutdown")
    for method in ("shutdown", "workspace/symbol", "no/such"):
        assert client.answer(client.ask(method, {"query": "a"}))["error"]["code"] == -32600
    client.notify("exit")
    assert client.close() == 0


def test_requests_before_initialize_are_refused() -> None:
    client = connect()
    assert client.answer(client.ask("workspace/symbol", {"query": "a"}))["error"]["code"] == -32002
    client.initialize()
    assert client.request("workspace/symbol", {"query": "a"}) == []
    assert client.leave() == 0


@pytest.mark.parametrize("number", [{}, [], 1.5, True])
def test_an_id_that_is_none_is_refused(client: Client, number: object) -> None:
    client.send({"jsonrpc": "2.0", "id": number, "method": "workspace/symbol", "params": {"query": "a"}})
    found = client.receive(lambda item: "error" in item)
    assert (found["id"], found["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("nki-lab.targets", [[]], "(uri): uri has to be a string"),
        ("nki-lab.target", [{"a": 1}], "(uri): uri has to be a string"),
        ("nki-lab.cell", [{"a": 1}, "k"], "(uri, kernel, [options]): uri has to be a string"),
        ("nki-lab.cell", [{"a": 1}], "(uri, kernel, [options]), not 1"),
        ("nki-lab.explain", [3], "(name): name has to be a string"),
        ("nki-lab.explain", ["NKI201", "NKI202"], "(name), not 2"),
    ],
)
def test_arguments_of_another_type_are_called_invalid(
    client: Client, command: str, arguments: list[object], expected: str
) -> None:
    params = {"command": command, "arguments": arguments}
    error = client.answer(client.ask("workspace/executeCommand", params))["error"]
    assert error == {"code": -32602, "message": f"{command} takes the arguments {expected}"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/didChange", {"textDocument": {"uri": "file:///unknown.py", "version": 2}, "contentChanges": []}),
        ("textDocument/didClose", {"textDocument": {"uri": "file:///unknown.py"}}),
        ("textDocument/didOpen", {"textDocument": {"uri": 3}}),
        ("notebookDocument/didChange", {"notebookDocument": {"uri": "n", "version": 1}, "change": {}}),
        ("workspace/didChangeConfiguration", {"settings": ["odd", 3]}),
        ("$/cancelRequest", {"id": 999_999}),
        ("$/setTrace", {"value": "verbose"}),
    ],
)
def test_messages_that_make_no_sense_are_passed_over(client: Client, uri: str, method: str, params: object) -> None:
    client.notify(method, params)
    client.open(uri, FAULTY)
    client.until(uri, ["NKI201"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "\ud800",
        "\ufeff" + FAULTY,
        "(" * 5000,
        "x = " + "-" * 50_000 + "1",
        "'" * 999,
        "\x0c\r\u2028",
        "if 1:\n" * 90,
    ],
)
def test_any_text_is_answered(client: Client, uri: str, text: str) -> None:
    client.open(uri, text)
    client.published(uri)
    client.hover(uri, 0, 0)
    client.change(uri, FAULTY)
    client.until(uri, ["NKI201"])


def test_typing_a_module_in_and_out_ends_with_the_findings_of_the_last_text(client: Client, uri: str) -> None:
    """Random edits, each half typed: what is told in the end is what a fresh look says."""
    draw = random.Random(5)
    sources = sorted(file.read_text(encoding="utf-8") for file in KERNELS.glob("fault_m*.py"))
    text = "\n".join(sources)
    pieces = [
        "(",
        ")",
        "'",
        '"""',
        "\n",
        "    ",
        ":",
        "nl.",
        "= ",
        "@nki.jit\n",
        "é😀",
        "#",
        "\\",
        "[",
        "lambda: ",
        "def ",
    ]
    client.open(uri, text)
    for _ in range(60):
        at, cut = draw.randrange(len(text)), draw.choice([0, 0, 1, 8, 40])
        piece = draw.choice(pieces)
        before = text[:at].split("\n")
        inside = text[: at + cut].split("\n")
        start, end = (len(item[-1].encode("utf-16-le")) // 2 for item in (before, inside))
        client.change(uri, (len(before) - 1, start, len(inside) - 1, end, piece))
        text = text[:at] + piece + text[at + cut :]
    client.hover(uri, 3, 5)
    version = client.change(uri, (0, 0, 0, 0, "#\n"))
    told = client.published(uri, version)
    fresh = uri.replace(".py", "_fresh.py")
    client.open(fresh, "#\n" + text)
    expected = client.published(fresh, 1)
    deadline = time.monotonic() + 20
    while codes(told) != codes(expected) and time.monotonic() < deadline:  # one of them was the syntax alone
        told, expected = client.told(uri)[-1]["diagnostics"], client.told(fresh)[-1]["diagnostics"]
        client.hover(uri, 0, 0)
    assert codes(told) == codes(expected)


# -- the process beside the server -------------------------------------------------------------------------------------


def test_a_killed_evaluation_is_started_again() -> None:
    client = connect()
    client.initialize(steps=24_000_000)
    client.open("file:///slow.py", SLOW)
    client.open("file:///k.py", "import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n")
    client.published("file:///k.py")
    (worker,) = children(client.process.pid)
    os.kill(worker, signal.SIGKILL)
    client.open("file:///other.py", FAULTY)
    client.until("file:///other.py", ["NKI201"])
    assert children(client.process.pid) != [worker]
    assert client.leave() == 0
    assert not Path(f"/proc/{worker}").exists()


def test_an_evaluation_that_ends_its_process_again_is_given_up_and_said_to_be_missing() -> None:
    client = connect()
    client.initialize(steps=200_000_000)
    text = f"{VERY_SLOW}\n@nki.jit\ndef odd(x):\n    y = lambda: 0\n"
    client.open("file:///slow.py", text)
    told = client.published("file:///slow.py")
    for _ in range(20):
        if "NKI901" in codes(told):
            break
        for worker in children(client.process.pid):
            os.kill(worker, signal.SIGKILL)
        time.sleep(1.5)
        client.hover("file:///slow.py", 0, 0)
        told = client.told("file:///slow.py")[-1]["diagnostics"]
    assert "NKI104" in codes(told)  # of the syntax
    (missing,) = [item for item in told if item["code"] == "NKI901"]
    assert "its process was ended by SIGKILL" in missing["message"]
    assert "only the syntax of this file is checked" in missing["message"]
    client.open("file:///other.py", FAULTY)
    client.until("file:///other.py", ["NKI201"])
    workers = children(client.process.pid)
    client.change("file:///slow.py", f"{text}#")
    version = client.change("file:///slow.py", text)
    again = client.published("file:///slow.py", version)
    while codes(again) != codes(told):
        again = client.published("file:///slow.py", version, seconds=20)  # this text is not evaluated again
    assert children(client.process.pid) == workers
    assert client.leave() == 0


def test_nothing_beside_the_kernel_is_imported(tmp_path: Path) -> None:
    for name in ("numpy", "ast", "nki_lab", "pickle", "sitecustomize", "lsprotocol"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    client = connect(cwd=tmp_path)
    client.initialize()
    client.open((tmp_path / "k.py").as_uri(), FAULTY + "import numpy, helper\n")
    client.until((tmp_path / "k.py").as_uri(), ["NKI201"])
    assert client.leave() == 0
    assert not (tmp_path / "ran").exists()


def test_nothing_that_a_workspace_names_is_executed(tmp_path: Path) -> None:
    """Its interpreters, its start-up files, modules beside the kernel, and what their top level would do."""
    ran = tmp_path / "ran"
    python = f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"
    shell = f"#!/bin/sh\ntouch {ran}\n"
    project = tmp_path / "project"
    scripts = [project / ".venv/bin/python", project / ".venv/bin/python3", project / "evil", project / "python3"]
    site = project / ".venv/lib/python3.11/site-packages"
    modules = (
        "sitecustomize", "usercustomize", "conftest", "numpy", "libcst", "nki", "nki_lab", "ast", "pickle", "pygls",
        "setup", "helper",
    )  # fmt: skip
    site.mkdir(parents=True)
    for folder in (project, site):
        for name in modules:
            (folder / f"{name}.py").write_text(python, encoding="utf-8")
    (site / "evil.pth").write_text(python, encoding="utf-8")
    (project / ".venv/pyvenv.cfg").write_text(f"home = {project}\nversion = 3.11.2\n", encoding="utf-8")
    (project / "pyproject.toml").write_text(
        '[tool.nki-lab]\npython = "evil"\npaths = ["."]\n[build-system]\nbuild-backend = "setup"\n', encoding="utf-8"
    )
    (project / ".nki-lab").mkdir()
    (project / ".nki-lab" / "signatures.json").write_text(
        '{"kernel": ["__import__(\'os\').abort()"]}', encoding="utf-8"
    )
    for script in scripts:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(shell, encoding="utf-8")
        script.chmod(0o755)
    text = f"import conftest, helper\nfrom numpy import *\nimport setup\n{FAULTY}\nhelper.run()\n{python}"
    kernel = project / "kernel.py"
    kernel.write_text(text, encoding="utf-8")
    client = connect(cwd=project, env={"PATH": f"{project}:{project / '.venv/bin'}:{os.environ['PATH']}"})
    client.replies["window/showDocument"] = {"success": True}
    capabilities = PULLING | {"workspace": {"workspaceFolders": True}, "window": {"showDocument": {"support": True}}}
    folders = [{"uri": project.as_uri(), "name": "project"}]
    options = {"python": str(project / ".venv"), "target": "trn2"}
    params = {
        "processId": None, "rootUri": project.as_uri(), "capabilities": capabilities, "workspaceFolders": folders,
        "initializationOptions": options,
    }  # fmt: skip
    client.request("initialize", params)
    client.notify("initialized", {})
    client.open(kernel.as_uri(), text)
    found = client.pulled(kernel.as_uri())["items"]
    assert "NKI201" in codes(found)
    for setting in (str(scripts[0]), "evil", ".venv"):
        client.notify("workspace/didChangeConfiguration", {"settings": {"nki-lab": {"python": setting}}})
        client.pulled(kernel.as_uri())
    document, place = {"uri": kernel.as_uri()}, {"line": 0, "character": 8}
    about = {"textDocument": document, "position": place, "context": {"includeDeclaration": True, "diagnostics": found}}
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    for method in ("hover", "definition", "references", "completion", "codeAction", "codeLens", "documentSymbol"):
        context = about["context"] | {"triggerKind": 1}
        client.request(f"textDocument/{method}", about | {"range": whole, "context": context})
    client.request("workspace/symbol", {"query": "k"})
    client.request("workspace/diagnostic", {"previousResultIds": []})
    for command, arguments in (
        ("cell", [kernel.as_uri(), "k"]),
        ("targets", [kernel.as_uri()]),
        ("explain", ["NKI201"]),
    ):
        client.request("workspace/executeCommand", {"command": f"nki-lab.{command}", "arguments": arguments})
    assert client.leave() == 0
    assert not ran.exists()


# -- the end -----------------------------------------------------------------------------------------------------------


def test_leaving_without_a_good_bye_is_status_1() -> None:
    client = connect()
    client.initialize()
    client.notify("exit")
    assert client.close() == 1


def test_a_closed_line_ends_the_server_and_its_children() -> None:
    client = connect()
    client.initialize(steps=24_000_000)
    client.open("file:///slow.py", SLOW)
    client.open("file:///k.py", "x = (")
    client.published("file:///k.py")
    workers = children(client.process.pid)
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.close() == 1
    assert not [number for number in workers if Path(f"/proc/{number}").exists()]


def test_an_editor_that_never_shakes_hands_ends_it_too() -> None:
    process = start()
    _, log = process.communicate(b"", timeout=60)
    assert process.returncode == 1
    assert b"Traceback" not in log


def test_one_connection_is_served() -> None:
    client, process = over_tcp()
    client.open("file:///k.py", FAULTY)
    client.until("file:///k.py", ["NKI201"])
    assert client.leave() == 0
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def test_the_command_line_starts_it() -> None:
    command = "import sys; from nki_lab.cli import main; sys.exit(main(['lsp', '--stdio']))"
    body = b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}'
    messages = b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    body = b'{"jsonrpc":"2.0","method":"exit"}'
    messages += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    done = subprocess.run([sys.executable, "-c", command], input=messages, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert b'"id": 1' in done.stdout or b'"id":1' in done.stdout


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:port", "host:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    process = start("--tcp", address)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"is no HOST:PORT" in log
