"""Checks of the built site: `python -m scripts.pages.checking FOLDER`.

Every link inside the site leads to a file, and to an element of it where it names one. No page asks another server
for anything: neither scripts nor styles, pictures, fonts or frames. Addresses are read as from a file, so that the site
can be opened from a folder too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LOADED: Final = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "video": ("src", "poster"),
}
"""What a browser loads by itself, by element and attribute."""

_NAMED: Final = {"link": ("canonical", "search", "prev", "next", "index", "author", "license")}
"""Relations of links that a browser does not load."""

_STYLE_URL: Final = re.compile(r"url\(\s*['\"]?(?P<url>[^'\")]+)|@import\s+['\"](?P<imported>[^'\"]+)")
_INLINE: Final = ("data:", "blob:", "about:")


class _Page(HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.loaded: list[tuple[int, str]] = []
        self.links: list[tuple[int, str]] = []
        self.anchors: set[str] = set()
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        line = self.getpos()[0]
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self._style = tag == "style"
        self.loaded += [(line, address) for address in _style_addresses(values.get("style", ""))]
        if tag == "a" and "href" in values:
            self.links.append((line, values["href"]))
        if values.get("rel") in _NAMED.get(tag, ()):
            return
        for name in _LOADED.get(tag, ()):
            for part in values.get(name, "").split(",") if name == "srcset" else [values.get(name, "")]:
                if address := part.strip().split(" ")[0]:
                    self.loaded.append((line, address))

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loaded += [(self.getpos()[0], address) for address in _style_addresses(data)]


def _style_addresses(text: str) -> list[str]:
    return [match["url"] or match["imported"] for match in _STYLE_URL.finditer(text)]


@cache
def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a built site."""
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        yield f"{folder} has no pages"
    for file in pages:
        page, shown = _read(file), file.relative_to(folder).as_posix()
        for line, address in page.loaded:
            if not address.startswith(_INLINE):
                yield from (f"{shown}:{line}: {text}" for text in _fault(file, address, folder, loaded=True))
        for line, address in page.links:
            yield from (f"{shown}:{line}: {text}" for text in _fault(file, address, folder, loaded=False))
    for file in sorted(folder.rglob("*.css")):
        for address in _style_addresses(file.read_text(encoding="utf-8")):
            if not address.startswith((*_INLINE, "#")):
                shown = file.relative_to(folder).as_posix()
                yield from (f"{shown}: {text}" for text in _fault(file, address, folder, loaded=True))


def _fault(file: Path, address: str, folder: Path, *, loaded: bool) -> Iterator[str]:
    """Yield what is wrong with an address in a file; those of links may lead to other servers."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        if loaded:
            yield f"{address} is loaded from another server"
        return
    target = file if not parts.path else (file.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(folder.resolve()) and parts.path:
        yield f"{address} leads out of the site"
    elif not target.is_file():
        yield f"{address} leads nowhere"
    elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _read(target).anchors:
        yield f"{address}: {target.name} has no element of this name"


def main(arguments: list[str]) -> int:
    """Print what is wrong with the site in a folder; 1 where something is."""
    (folder,) = arguments
    root = Path(folder).resolve()
    found = list(problems(root))
    print("\n".join([*found[:50], f"and {len(found) - 50} more"] if len(found) > 50 else found))
    pages = len(list(root.rglob("*.html")))
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) / 2**20
    print(f"{pages} pages, {size:.0f} MiB in {folder}: {len(found) or 'no'} faults")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
