"""Hints of one kind in one file are one finding, for reading; each is still mended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nki_lab.query import check, quick_fixes
from nki_lab.query.grouping import grouped

HEAD = "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef kernel(x):\n"
LOOPS = "".join(f"    for i{n} in nl.affine_range({n + 1}):\n        pass\n" for n in range(27))
TEXT = f"{HEAD}{LOOPS}    return x\n"


def test_27_ranges_are_one_finding_that_says_where() -> None:
    found = check("k.py", source=TEXT)
    assert sum(item.code == "NKI127" for item in found) == 27
    (one,) = [item for item in grouped(found) if item.code == "NKI127"]
    assert one.line == 7 and len(one.places) == 26
    assert one.as_dict()["count"] == 27
    assert [place["line"] for place in one.as_dict()["places"]] == list(range(9, 61, 2))
    assert "at 27 places, also on lines 9, 11," in str(one)


def test_kinds_and_files_stay_apart() -> None:
    text = TEXT.replace("    return x", "    n = nl.tile_size.psum_fmax + nl.tile_size.psum_fmax\n    return x")
    found = [*check("a.py", source=text), *check("b.py", source=text)]
    codes = [(item.file, item.code) for item in grouped(found) if item.code in ("NKI127", "NKI601")]
    assert sorted(codes) == [("a.py", "NKI127"), ("a.py", "NKI601"), ("b.py", "NKI127"), ("b.py", "NKI601")]


def test_errors_are_not_grouped() -> None:
    text = f"{HEAD}    a = nl.affinerange(2)\n    b = nl.affinerange(2)\n    return x\n"
    found = check("k.py", source=text)
    assert len([item for item in grouped(found) if item.severity == "error"]) == 2


def test_one_fix_for_all_places() -> None:
    (one,) = [item for item in grouped(check("k.py", source=TEXT)) if item.code == "NKI127"]
    (fix,) = quick_fixes(one, TEXT.splitlines())
    assert fix.title == "Write range at all 27 places" and len(fix.edits) == 27


def test_the_command_line_groups_and_fixes_all(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(TEXT)
    command = [sys.executable, "-m", "nki_lab", "check", str(file)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    ranges = [item for item in json.loads(done.stdout) if item["code"] == "NKI127"]
    assert [item["count"] for item in ranges] == [27]
    subprocess.run([*command, "--fix"], capture_output=True, text=True, check=False)
    assert "affine_range" not in file.read_text()
