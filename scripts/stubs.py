"""Writes the packages of type stubs that the wheel carries: python scripts/stubs.py [--out FOLDER]."""

from __future__ import annotations

import argparse
from pathlib import Path

from nki_lab.stubs import stubs

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Write the stubs below the folder `stubs` of the one given by `--out`, the checkout by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT)
    folder = parser.parse_args().out / "stubs"
    for path, text in stubs().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
