"""Files are read by `nki_lab.source_files`: a pipe, a device or an endless file under any name neither hangs nor harms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nki_lab"

READS = {
    "read_text", "read_bytes", "np.load", "np.fromfile", "np.loadtxt", "np.genfromtxt", "np.memmap", "json.load", "tomllib.load",
    "linecache.getline", "linecache.getlines", "tokenize.open", "io.open", "os.open", "open", "fileinput.input", "shutil.copyfile",
}  # fmt: skip
# Module and call, with the reason.
ALLOWED = {
    "source_files.py": {"os.open", "open", "linecache.getlines"},  # the reader itself
    "contained.py": {"read_text", "os.open"},  # /proc/self/statm, /dev/null
    "file_system.py": {"os.open", "read_bytes"},  # locks and syncs; what was read a moment before
    "codes/__init__.py": {"read_text"},  # our own pages
    "wire/__init__.py": {"read_text"},  # our own views
    "timeline/interval.py": {"read_text"},  # our own table
    "cli/coverage.py": {"read_text"},  # our own table
    "magic/display.py": {"read_text"},  # our own style sheet
    "lsp/handshake.py": {"read_text"},  # our own file
    "jupyter/examples.py": {"read_text"},  # our own notebooks
    "kernel_runtime/language/composites.py": {"np.load"},  # of bytes that the reader gave
    "crosschecks/other_side.py": {"read_text", "np.fromfile"},  # runs in a folder that this package has just made
    "cli/__init__.py": {"os.open"},  # /dev/null
    "lsp/streams.py": {"os.open"},  # /dev/null
}
# Modules that read so many bytes of a file and no more.
BOUNDED = {"kernel_runtime/recording/folder.py": {".open"}, "export/explorer/profile.py": {".open"}}
WRITES = frozenset("wxa")


def reads_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The calls that read a file, by name and line; what is opened for writing, or is no file, does not count."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        short = name.rpartition(".")[2]
        if short in ("read_text", "read_bytes"):
            yield short, node.lineno
        elif name in READS:
            modes = [item.value for item in node.args[1:2] if isinstance(item, ast.Constant)]
            if not any(isinstance(mode, str) and WRITES & set(mode) for mode in modes):
                yield name, node.lineno
        elif short == "open" and any(
            isinstance(item, ast.Constant) and str(item.value) in ("r", "rb") for item in node.args[:1]
        ):
            yield ".open", node.lineno


def test_no_module_reads_files_past_the_one_reader() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for call, line in reads_of(ast.parse(path.read_text(encoding="utf-8"))):
            if call not in ALLOWED.get(name, set()) | BOUNDED.get(name, set()):
                found.append(f"nki_lab/{name}:{line}: {call} - nki_lab.source_files.read_source reads files, bounded")
    assert not found, "\n".join(found)


def test_the_exceptions_are_needed() -> None:
    for name, calls in ALLOWED.items():
        present = {call for call, _ in reads_of(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))}
        assert calls <= present, name


def test_a_new_reader_is_noticed() -> None:
    text = "json.load(open(path))\npath.open('rb')\npath.read_text()\nopen(path, 'w')\npath.open()\nnp.load(path)"
    assert [call for call, _ in reads_of(ast.parse(text))] == ["json.load", ".open", "read_text", "np.load", "open"]
