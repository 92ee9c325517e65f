"""The answer to `initialize`, given before the server is loaded: its offers stand in a generated file.

Loading the types of the protocol takes longer than an editor should wait. `scripts/lsp_capabilities.py` writes down
what the server would offer an editor that can do everything; the parts that depend on the editor are chosen here.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

NAME: Final = "nki-lab"
FILE: Final = Path(__file__).with_name("capabilities.json")
ENCODINGS: Final = ("utf-8", "utf-16", "utf-32")
MOST_BYTES: Final = 16 << 20
"""Size of a first message beyond which it is left to the server, and of a line over TCP beyond which it is none."""
_FILE_OPERATIONS: Final = ("willCreate", "didCreate", "willRename", "didRename", "willDelete", "didDelete")

Table = dict[str, Any]


def shake_hands(source: BinaryIO, output: BinaryIO) -> tuple[bytes, object]:
    """Read the first message, and answer it if it is `initialize`.

    Returns what was read, which the server has to read too, and the id of the answered request; None where the first
    message is another one.
    """
    head, body = _first_message(source)
    try:
        message = json.loads(body) if body else None
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or message.get("method") != "initialize":
        return head + body, None
    number, params = message.get("id"), message.get("params")
    if isinstance(number, bool) or not isinstance(number, int | str) or not isinstance(params, dict):
        return head + body, None
    known = json.loads(FILE.read_text(encoding="utf-8"))
    result = {"capabilities": offers(known["capabilities"], params.get("capabilities")), "serverInfo": server_info()}
    answer = json.dumps({"id": number, "jsonrpc": "2.0", "result": result}).encode()
    output.write(b"Content-Length: %d\r\n\r\n%s" % (len(answer), answer))
    output.flush()
    return head + body, number


def server_info() -> dict[str, str]:
    """Return the name and the version that the server gives."""
    return {"name": NAME, "version": str(vars(sys.modules["nki_lab"])["__version__"])}  # of a higher layer


def _first_message(source: BinaryIO) -> tuple[bytes, bytes]:
    """Return the header and the body of the first message; no body where the line holds something else."""
    head, length = b"", 0
    while line := source.readline(1 << 12):
        head += line
        name, _, value = line.partition(b":")
        if line == b"\r\n" and length:
            return head, source.read(length) if length <= MOST_BYTES else b""
        if name == b"Content-Length" and value.strip().isdigit():
            length = int(value)
        elif name != b"Content-Type":
            break
    return head, b""


def offers(every: Table, client: object) -> Table:
    """Return the offers to an editor with the capabilities `client`, of `every` offer."""
    found = copy.deepcopy(every)
    wanted = _at(client, "general", "positionEncodings")
    encodings = wanted if isinstance(wanted, list) else []
    found["positionEncoding"] = next((item for item in encodings if item in ENCODINGS), "utf-16")
    if not isinstance(_at(client, "notebookDocument"), dict):
        found.pop("notebookDocumentSync", None)
    if "renameProvider" in found and not _at(client, "textDocument", "rename", "prepareSupport"):
        found["renameProvider"] = True
    operations = found.get("workspace", {}).get("fileOperations", {})
    for name in _FILE_OPERATIONS:
        if not _at(client, "workspace", "fileOperations", name):
            operations.pop(name, None)
    return found


def _at(table: object, *names: str) -> object:
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table
