"""The built views are those of today's sources, said without node."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

SCRIPT = "scripts/assets.py"


def script(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / SCRIPT))


def checkout(folder: Path) -> Path:
    """A small checkout with sources and built files."""
    for name in ("labextension/src/a.ts", "labextension/src/b/c.css", "labextension/package-lock.json",
                 "nki_lab/widgets/static/widget.js", "nki_lab/widgets/labextension/package.json"):  # fmt: skip
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name, encoding="utf-8")
    return folder


def test_built_views_are_those_of_the_sources(root: Path) -> None:
    known = script(root)
    assert known["manifest"](root) == json.loads((root / known["MANIFEST"]).read_text("utf-8")), "make assets"


def test_every_source_and_built_file_counts(root: Path, tmp_path: Path) -> None:
    manifest = script(root)["manifest"]
    before = manifest(checkout(tmp_path))
    for name, key in (
        ("labextension/src/b/c.css", "sources"),
        ("labextension/package-lock.json", "sources"),
        ("labextension/src/new.ts", "sources"),
        ("nki_lab/widgets/static/widget.js", "built"),
        ("nki_lab/widgets/labextension/static/new.js", "built"),
    ):
        file = checkout(tmp_path) / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("changed", encoding="utf-8")
        after = manifest(tmp_path)
        assert {other for other in after if after[other] != before[other]} == {key}, name
        file.unlink()
    assert manifest(checkout(tmp_path)) == before


def test_tests_and_the_manifest_itself_do_not_count(root: Path, tmp_path: Path) -> None:
    known = script(root)
    before = known["manifest"](checkout(tmp_path))
    (tmp_path / "labextension/src/a.test.ts").write_text("x", encoding="utf-8")
    (tmp_path / known["MANIFEST"]).write_text("{}", encoding="utf-8")
    assert known["manifest"](tmp_path) == before


def test_a_build_is_compared_file_by_file(root: Path, tmp_path: Path) -> None:
    differing = script(root)["differing"]
    here, there = checkout(tmp_path / "a"), checkout(tmp_path / "b") / "nki_lab/widgets"
    assert differing(here, there) == []
    (there / "static/widget.js").write_text("x", encoding="utf-8")
    (there / "labextension/package.json").unlink()
    (there / "labextension/new.js").write_text("x", encoding="utf-8")
    assert differing(here, there) == ["labextension/new.js", "labextension/package.json", "static/widget.js"]
