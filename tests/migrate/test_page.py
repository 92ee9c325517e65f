"""The table of docs/migration.md is that of the declarations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nki_lab.migrate import ROWS

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_rows_as_they_are(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts/migration_rows.py"), "--out", str(tmp_path)], check=True)
    written = (tmp_path / "docs/migration.md").read_text(encoding="utf-8")
    assert written == (ROOT / "docs/migration.md").read_text(encoding="utf-8")


def test_rows_are_numbered_without_gaps_and_say_what_to_do() -> None:
    assert [row.number for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert all(row.before and row.after and row.link.startswith("https://") for row in ROWS)
    assert [row.number for row in ROWS if row.is_manual] == [6, 21, 51, 53, 55]
