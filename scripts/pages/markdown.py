"""Markdown of the site: links between its pages, pictures of both themes, frames with runs."""

from __future__ import annotations

import posixpath
import re
import tomllib
from functools import cache
from html import escape
from typing import Final

from nki_lab import codes
from nki_lab.query import links
from scripts.pages.blocks import FENCE, ROOT

RUNS: Final = "_static/runs"
"""Where pages of runs stand."""

SCRIPT: Final = "visualizer.js"
"""The views' script, which pages of runs share, beside them."""

FRAME: Final = "../frame.js"
"""The script by which such a page fits into a frame, seen from there."""

_PICTURE: Final = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]*)"\s+src="(?P<light>[^"]+)">\s*</picture>'
)
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]\[]*)\]\((?P<target>[^)\s]+)\)")
_CODE: Final = re.compile(r"(?<![\w/\[#-])NKI\d{3}(?![\w\]])")
_NAME: Final = re.compile(r"(?<!\[)`(?P<module>nisa|nl)\.(?P<name>\w+)(?P<rest>\([^`]*\))?`(?!\])")
_INLINE: Final = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
_SPAN: Final = re.compile(r"`+[^`]+`+|\]\([^)]*\)|<[^>\n]+>")
KERNELS: Final = "examples/kernels"


def outside_fences(text: str, change: object) -> str:
    """Return a text of which `change(part)` has changed all parts that stand in no fenced block."""
    assert callable(change)
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [str(change(text[end : fence.start()])), fence[0]]
        end = fence.end()
    return "".join([*parts, str(change(text[end:]))])


def linked(text: str, *, own: str = "") -> str:
    """Return a text in which codes, instructions and functions lead to their pages; `own` is not linked to itself."""
    return outside_fences(text, lambda part: _codes(_names(part, own), own))


def _codes(text: str, own: str) -> str:
    known = {entry.code for entry in codes.all_codes()} - {own}
    pieces, end = [], 0
    for span in _SPAN.finditer(text):
        pieces += [_CODE.sub(lambda m: _code(m[0], known), text[end : span.start()]), span[0]]
        end = span.end()
    rest = _CODE.sub(lambda m: _code(m[0], known), text[end:])
    return "\n".join(
        line if line.startswith("#") else changed
        for line, changed in zip(text.split("\n"), "".join([*pieces, rest]).split("\n"), strict=True)
    )


def _code(code: str, known: set[str]) -> str:
    return f"[{code}](/{links.code_page(code)}.md)" if code in known else code


def _names(text: str, own: str) -> str:
    def link(match: re.Match[str]) -> str:
        name = match["name"]
        target = links.instruction_page(name) if match["module"] == "nisa" else links.language_page(name)
        return f"[{match[0]}](/{target}.md)" if target and name != own else match[0]

    lines = text.split("\n")
    return "\n".join(line if line.startswith("#") else _outside_links(line, link) for line in lines)


def _outside_links(line: str, link: object) -> str:
    """Return a line whose names are linked, those within a link's own text left as they are."""
    assert callable(link)
    pieces, end = [], 0
    for inner in _LINK.finditer(line):
        pieces += [_NAME.sub(link, line[end : inner.start()]), inner[0]]
        end = inner.end()
    return "".join([*pieces, _NAME.sub(link, line[end:])])


# -- documents of the repository -----------------------------------------------------------------------------------


def of_the_site(text: str, place: str) -> str:
    """Return a document of the repository as the site has it. `place` is its path, as docs/adr/0001-x.md.

    Pictures become those of the site's theme. Links to other files of the repository lead to their pages where the site
    has them, else to the repository, where `[project.urls]` names one; without, the file's name stands there.
    """
    return linked(outside_fences(text, lambda part: _PICTURE.sub(_picture, _relinked(part, place))))


def _picture(match: re.Match[str]) -> str:
    return "\n\n".join(f"![{match['alt']}]({match[theme]}){{.only-{theme}}}" for theme in ("light", "dark"))


def _relinked(text: str, place: str) -> str:
    def link(match: re.Match[str]) -> str:
        target, hash_sign, anchor = match["target"].partition("#")
        if "://" in target or not target or target.startswith(("/", "mailto:")):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        page = page_of(path)
        if page:
            return f"[{match['text']}](/{page}{hash_sign}{anchor})"
        known = repository()
        if known:
            return f"[{match['text']}]({known}/{path})"
        return match["text"] if "`" in match["text"] else f"{match['text']} (`{path}`)"

    code = [span.span() for span in _INLINE.finditer(text)]

    def outside_code(match: re.Match[str]) -> str:
        return match[0] if any(start < match.start() and match.end() < end for start, end in code) else link(match)

    return _LINK.sub(outside_code, text)


def page_of(path: str) -> str:
    """Return the site's document for a file of the repository, by its path there; empty where it has none."""
    known = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
    if path in known:
        return known[path]
    folder, _, name = path.rpartition("/")
    if folder == "nki_lab/codes":
        return next((f"{links.code_page(item.code)}.md" for item in codes.all_codes() if f"{item.slug}.md" == name), "")
    if path.rstrip("/") == KERNELS:
        return "gallery/index.md"
    if folder == KERNELS and (ROOT / path).is_file():
        return f"gallery/{name.removesuffix('.py')}.md"
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        if (ROOT / path).is_file():
            return inside
        index = f"{inside.rstrip('/')}/index.md"
        return index if (ROOT / "docs" / index).is_file() else ""
    return ""


@cache
def repository() -> str:
    """Return where the repository's files are shown on the web, as pyproject.toml says; empty where it does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    urls = {name.lower(): address for name, address in project.get("urls", {}).items()}
    address = str(urls.get("repository") or urls.get("source") or "")
    return f"{address.rstrip('/')}/blob/main" if address else ""


# -- runs ----------------------------------------------------------------------------------------------------------


def frame(file: str, title: str, *, depth: int) -> str:
    """Return a frame with the page of a run, `file` below the folder of runs, in a page `depth` folders deep.

    It loads when it comes into sight, and follows the theme of the page around it.
    """
    address = f"{'../' * depth}{RUNS}/{file}"
    return (
        f'<figure class="run"><iframe src="{address}" title="{escape(title)}" loading="lazy">'
        f'</iframe><figcaption><a href="{address}">{escape(title)}</a></figcaption></figure>'
    )
