"""Files are written by `nki_lab.file_system`: whole, over regular files alone, with links followed and rights kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITER = "nki_lab/file_system.py"
METHODS = {
    "write_text", "write_bytes", "unlink", "rmdir", "rename", "touch", "symlink_to", "hardlink_to", "chmod",
    "ParquetWriter", "rmtree", "copyfile", "copytree", "copymode", "copy2", "mkstemp", "mkdtemp",
    "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory", "SpooledTemporaryFile", "removedirs", "truncate",
}  # fmt: skip
"""Functions and methods that write, rename or remove files, whatever they are called on."""
OF_MODULES = {
    "os": {"replace", "remove", "open", "link", "symlink", "renames", "mkfifo"}, "shutil": {"move", "copy", "chown"},
}  # fmt: skip
ALLOWED = {
    ("nki_lab/kernel_runtime/recording/stored.py", "ParquetWriter"): "a new name, which the draft of a manifest lists",
    ("nki_lab/export/explorer/writing.py", "ParquetWriter"): "in the draft of whole_folder",
    ("nki_lab/crosschecks/other_side.py", "write_text"): "in a private folder, by a Python without nki_lab",
    ("nki_lab/lsp/requests/rename.py", "rename"): "of names in a program",
    ("nki_lab/source_files.py", "open"): "for reading, without waiting",
    ("nki_lab/cli/__init__.py", "open"): "of os.devnull",
    ("nki_lab/lsp/streams.py", "open"): "of os.devnull",
    ("nki_lab/contained.py", "open"): "of os.devnull",
}
"""Calls elsewhere, with the reason."""


def writes(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each call that may write, rename or remove a file."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        module = getattr(getattr(function, "value", None), "id", "")
        modes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        is_writing = any(set(text) & set("wxa+") and set(text) <= set("rwxabt+") for text in texts)
        if name in METHODS or name in OF_MODULES.get(module, ()) or (name == "open" and is_writing):
            yield node.lineno, name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("path.write_text('x')", "write_text"),
        ("open(path, 'wb')", "open"),
        ("path.open(mode='a')", "open"),
        ("os.replace(a, b)", "replace"),
        ("tempfile.mkstemp()", "mkstemp"),
        ("shutil.rmtree(folder)", "rmtree"),
    ],
)
def test_a_call_that_writes_is_recognised(source: str, name: str) -> None:
    assert list(writes(source)) == [(1, name)]


@pytest.mark.parametrize("source", ["open(path)", "path.open('rb')", "text.replace('a', 'b')", "items.remove(x)"])
def test_a_call_that_reads_is_none(source: str) -> None:
    assert not list(writes(source))


def test_files_are_written_in_one_place() -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), name): line
        for file in sorted((ROOT / "nki_lab").rglob("*.py"))
        for line, name in writes(file.read_text(encoding="utf-8"))
    }
    elsewhere = {key: line for key, line in found.items() if key[0] != WRITER}
    assert not {f"{file}:{line} {name}" for (file, name), line in elsewhere.items() if (file, name) not in ALLOWED}
    assert ALLOWED.keys() <= elsewhere.keys(), "an exception that nothing needs"
