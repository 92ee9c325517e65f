"""Says what the built views in nki_lab/widgets were made of, so that stale ones are noticed without node.

python scripts/assets.py           writes nki_lab/widgets/static/assets.json; `make assets` runs it after the build
python scripts/assets.py --check FOLDER
                                   compares what was just built into FOLDER with what is committed
"""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = "nki_lab/widgets/static/assets.json"
BUILT = ("nki_lab/widgets/static", "nki_lab/widgets/labextension")
SOURCES = ("build.mjs", "package-lock.json", "package.json", "tsconfig.json", "src")
"""What decides about the built files, in labextension/."""


def digest(root: Path, files: list[Path]) -> str:
    """One hash of the names and contents of files."""
    out = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        out.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode())
        out.update(content)
    return out.hexdigest()


def files_in(root: Path, entries: tuple[str, ...]) -> list[Path]:
    """All files below the given ones, in order, without tests and the manifest."""
    found = {
        file for entry in entries for path in (root / entry,) for file in (path.rglob("*"), (path,))[path.is_file()]
    }
    kept = (file for file in found if file.is_file() and not file.name.endswith(".test.ts") and file != root / MANIFEST)
    return sorted(kept, key=lambda file: file.relative_to(root).as_posix())


def manifest(root: Path) -> dict[str, str]:
    """The hashes of today's sources and of today's built files."""
    return {
        "sources": digest(root / "labextension", files_in(root / "labextension", SOURCES)),
        "built": digest(root, files_in(root, BUILT)),
    }


def differing(root: Path, folder: Path) -> list[str]:
    """Names of built files that are not the same in `folder`, which has static/ and labextension/."""
    base = root / "nki_lab/widgets"
    names = {
        file.relative_to(top).as_posix()
        for top in (base, folder)
        for part in ("static", "labextension")
        for file in (top / part).rglob("*")
        if file.is_file() and file != root / MANIFEST
    }
    return sorted(name for name in names if not _same(base / name, folder / name))


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.check is None:
        (ROOT / MANIFEST).write_text(json.dumps(manifest(ROOT), indent=2) + "\n", encoding="utf-8")
        return 0
    stale = differing(ROOT, given.check)
    if stale or manifest(ROOT) != json.loads((ROOT / MANIFEST).read_text(encoding="utf-8")):
        print(f"built views are stale ({', '.join(stale) or MANIFEST}); make assets builds them anew", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
