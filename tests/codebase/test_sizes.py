"""Size is a smell: long files are named, and a file that nobody can read in one go fails."""

from __future__ import annotations

from pathlib import Path

import pytest

LONG = 400  # lines; from here on a file needs a reason (tables have one)
TOO_LONG = 900
SUFFIXES = {".py", ".ts", ".tsx", ".js", ".mjs", ".css"}


def lengths(files: list[Path]) -> list[tuple[int, Path]]:
    """Source files of more than LONG lines, longest first."""
    sources = [file for file in files if file.suffix in SUFFIXES and "static" not in file.parts]
    counted = [(len(file.read_text(encoding="utf-8").splitlines()), file) for file in sources]
    return sorted(((lines, file) for lines, file in counted if lines > LONG), reverse=True)


def test_no_file_is_too_long(project_files: list[Path], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = lengths(project_files)
    with capsys.disabled():
        for lines, file in found:
            print(f"\n{file.relative_to(root)}: {lines} lines, over {LONG}", end="")
    assert not [f"{file.relative_to(root)}: {lines}" for lines, file in found if lines > TOO_LONG]


def test_a_long_file_is_counted(tmp_path: Path) -> None:
    for name, lines in {"short.py": LONG, "long.py": LONG + 1, "longer.ts": TOO_LONG + 1, "data.json": 9999}.items():
        (tmp_path / name).write_text("x\n" * lines, encoding="utf-8")
    assert lengths(sorted(tmp_path.iterdir())) == [
        (TOO_LONG + 1, tmp_path / "longer.ts"),
        (LONG + 1, tmp_path / "long.py"),
    ]
