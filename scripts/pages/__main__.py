"""`python -m scripts.pages FOLDER [--only PLACE...]`: write the sources of the site; see the package."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from nki_lab.export.colours import COLOURS
from nki_lab.wire import script
from scripts.pages import documents, gallery, interface, reference
from scripts.pages.markdown import RUNS, SCRIPT

DOCUMENTS_AT_ONCE = 2
"""Documents whose blocks run at the same time."""


def main(arguments: list[str] | None = None) -> int:
    """Write the sources of the site into a folder; files that are as they were keep their times."""
    parser = argparse.ArgumentParser(prog="python -m scripts.pages", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="PLACE", help="pages to write, as codes/NKI2*.md; all others stay")
    given = parser.parse_args(arguments)
    start = time.perf_counter()
    count = write(given.folder, given.only)
    print(f"{count} pages in {given.folder}, {time.perf_counter() - start:.0f} s")
    return 0


def write(out: Path, only: list[str] | None = None) -> int:
    """Write the pages whose places match one of the patterns `only`, all where there are none; how many there are."""
    out.mkdir(parents=True, exist_ok=True)
    documents.copy_files(out)
    _put(out / "_static" / "colours.css", colours())
    _put(out / RUNS / SCRIPT, script(SCRIPT))
    written = set()
    for place, text in _pages(out, only):
        _put(out / place, text)
        written.add(place)
    if only is None:
        for file in out.rglob("*.md"):
            if file.relative_to(out).as_posix() not in written:
                file.unlink()
    return len(written)


def _pages(out: Path, only: list[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the place and the Markdown of each page that is wanted.

    Blocks of documents run in processes of their own, beside those of the gallery.
    """
    found = {place: file for place, file in documents.sources().items() if _wanted(place, only)}
    with ThreadPoolExecutor(max_workers=DOCUMENTS_AT_ONCE) as pool:
        waiting = {place: pool.submit(documents.page, place, file, out) for place, file in found.items()}
        yield from ((place, text) for place, text in (*reference.pages(), *interface.pages()) if _wanted(place, only))
        stems = [stem for stem in gallery.stems() if only is None or _wanted(f"gallery/{stem}.md", only)]
        yield from gallery.pages(out, stems)
        yield from ((place, page.result()) for place, page in waiting.items())


def _wanted(place: str, only: list[str] | None) -> bool:
    return only is None or any(fnmatch(place, pattern) for pattern in only)


def colours() -> str:
    """Return the colours of the views as style sheet variables of both themes of the site."""
    light, dark = (
        "\n".join(f"  --nki-{name}: {getattr(colour, theme)};" for name, colour in COLOURS.items())
        for theme in ("light", "dark")
    )
    inner = re.sub(r"^", "  ", f'body:not([data-theme="light"]) {{\n{dark}\n}}', flags=re.MULTILINE)
    return (
        "/* Made by scripts/pages of nki_lab/export/colours.py. */\n"
        f'body {{\n{light}\n}}\n\nbody[data-theme="dark"] {{\n{dark}\n}}\n\n'
        f"@media (prefers-color-scheme: dark) {{\n{inner}\n}}\n"
    )


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
