"""The command `nki-lab stubs`: type stubs in a folder, for an editor that is given their path."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nki_lab.diagnostic import coded_error
from nki_lab.file_system import write_whole
from nki_lab.source_files import read_source

if TYPE_CHECKING:
    from nki_lab.cli.kernels import Settings

OPTIONS: Final[dict[str, Settings]] = {
    "folder": {"metavar": "FOLDER", "help": "where the packages nki and neuronxcc go, such as typings"},
}
"""The options of the command."""

_SUFFIX: Final = "-stubs"


def write_stubs(arguments: argparse.Namespace) -> int:
    """Write the stubs of both dialects below a folder, each package in one step.

    NKI021 where a folder of that name has files that no earlier call of the command wrote; then nothing is written.
    """
    from nki_lab.export.files import refusing, replacing_folder
    from nki_lab.stubs import MARK, stubs

    packages: dict[str, dict[str, str]] = {}
    for path, text in stubs().items():
        package, _, inner = path.partition("/")
        if inner.endswith(".pyi"):
            packages.setdefault(package.removesuffix(_SUFFIX), {})[inner] = text
    targets = {package: Path(arguments.folder) / package for package in packages}
    for target in targets.values():
        with refusing(target):
            foreign = next(_foreign(target, MARK), None)
        if foreign is not None:
            raise coded_error(
                "NKI021",
                f"{target} is not replaced: {foreign} is no stub of this command",
                limit="only what the command has written is replaced",
                help="name another folder, or move that file away",
            )
    for package, files in packages.items():
        target = targets[package]
        former = {file.relative_to(target).as_posix() for file in target.rglob("*")}
        with replacing_folder(target, former) as draft:
            _write(draft, files)
        print(targets[package])
    return 0


def _foreign(folder: Path, mark: str) -> Iterator[Path]:
    """Yield the files of a folder that do not begin with the mark of a stub; the path itself where it is a file."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        yield folder
        return
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or (not file.is_dir() and not _is_marked(file, mark)):
            yield file


def _is_marked(file: Path, mark: str) -> bool:
    try:
        return read_source(file).startswith(f"{mark}\n".encode())
    except OSError:
        return False


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / path, text.encode("utf-8"))
