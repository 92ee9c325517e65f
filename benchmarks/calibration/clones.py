"""Take public kernels out of clones, at the commits and with the hashes that the data names."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import tarfile
import textwrap
from io import BytesIO
from pathlib import Path

from benchmarks.calibration.published import Kernel, Published


class MissingKernelError(Exception):
    """A kernel cannot be taken from the clones; the message says what is missing and what to do."""


def instructions(published: Published) -> str:
    """Return the commands that make the clones."""
    commits: dict[str, set[str]] = {}
    for kernel in published.kernels.values():
        commits.setdefault(kernel.repository, set()).add(kernel.commit)
    clone = "    git clone https://github.com/{}.git {}"
    lines = [
        "make calibration runs public kernels out of clones, which it does not make itself. To get them:",
        "",
        "    mkdir kernels && cd kernels",
        *(clone.format(published.repositories[name], name) for name in sorted(commits)),
        "    cd ..",
        "    make calibration KERNELS=kernels",
        "",
        "It reads these commits, whatever is checked out:",
        *(f"    {name} {commit}" for name in sorted(commits) for commit in sorted(commits[name])),
    ]
    return "\n".join(lines)


def _git(clone: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise MissingKernelError(f"{clone}: git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def text_of(kernel: Kernel, clones: Path) -> bytes:
    """Return the file of a kernel at its commit; MissingKernelError if it is absent or its hash is another one."""
    clone = clones / kernel.repository
    if not clone.exists():
        raise MissingKernelError(f"there is no clone {clone}; make calibration without KERNELS says how to get it")
    text = _git(clone, "show", f"{kernel.commit}:{kernel.file}")
    found = hashlib.sha256(text).hexdigest()
    if found != kernel.sha256:
        raise MissingKernelError(
            f"{kernel.repository}/{kernel.file} at {kernel.commit} has SHA-256 {found}, the data names {kernel.sha256}"
        )
    return text


def place(kernel: Kernel, clones: Path, build: Path) -> tuple[Path, str]:
    """Write a kernel below `build` and return the folder to import from and the name of the module.

    A package is written whole, since its modules import each other.
    """
    text = text_of(kernel, clones)
    if kernel.form == "package":
        folder = build / f"{kernel.repository}-{kernel.commit[:12]}"
        if not folder.exists():
            archive = _git(clones / kernel.repository, "archive", kernel.commit, kernel.root)
            unpacked = folder.with_suffix(".partial")
            with tarfile.open(fileobj=BytesIO(archive)) as files:
                files.extractall(unpacked, filter="data")
            unpacked.rename(folder)
        inside = Path(kernel.file).relative_to(kernel.root)
        return folder / kernel.root, ".".join(inside.with_suffix("").parts)
    source = text.decode()
    if kernel.form == "listing":
        source = code_block(source, kernel.block)
    elif kernel.form == "candidate":
        source = kernel.preamble + "\n\n" + _dedented(candidate(source, kernel.block))
    elif kernel.form == "fragment":
        source = kernel.preamble + "\n\n" + _dedented(source)
    folder = build / "modules"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"kernel_{kernel.id}_{kernel.commit[:12]}"
    (folder / f"{name}.py").write_text(source)
    return folder, name


def code_block(page: str, number: int) -> str:
    """Return the Python code block `number`, from 0, of a reStructuredText page, without its indentation."""
    blocks: list[list[str]] = []
    indent = -1  # of the directive that is open
    for line in page.splitlines():
        bare = line.strip()
        depth = len(line) - len(line.lstrip())
        if indent >= 0 and bare and depth <= indent:
            indent = -1
        if bare.startswith(".. code-block:: python"):
            indent = depth
            blocks.append([])
        elif indent >= 0:
            blocks[-1].append(line)
    if number >= len(blocks):
        raise MissingKernelError(f"the page has {len(blocks)} blocks of Python code, the data names number {number}")
    return textwrap.dedent("\n".join(blocks[number])) + "\n"


def candidate(text: str, number: int) -> str:
    """Return the code of candidate `number`, from 0, the first, of nested `CodeCandidate(parent=..., code=...)`."""
    found: list[str] = []
    call: ast.expr | None = ast.parse(text, mode="eval").body
    while isinstance(call, ast.Call):
        given = {item.arg: item.value for item in call.keywords}
        found.append(str(ast.literal_eval(given["code"])))
        call = given.get("parent")
    if number >= len(found):
        raise MissingKernelError(f"the file has {len(found)} candidates, the data names number {number}")
    return found[-1 - number]


def _dedented(source: str) -> str:
    """The source moved left by the indentation of its first line, where only that line or all lines have it."""
    first = source.lstrip("\n")
    indent = len(first) - len(first.lstrip())
    lines = [line[indent:] if line[:indent].isspace() and number == 0 else line
             for number, line in enumerate(first.splitlines())]  # fmt: skip
    return "\n".join(lines) + "\n"
