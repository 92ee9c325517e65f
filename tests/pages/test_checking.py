"""The check of the built site finds what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.pages.checking import main, problems


def site(folder: Path, body: str, **files: str) -> list[str]:
    """What is wrong with a site of a page with a body, and other files."""
    (folder / "index.html").write_text(f"<html><body>\n{body}\n</body></html>", encoding="utf-8")
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("_html", ".html").replace("_css", ".css")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(problems(folder))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "https://cdn.example/x.js is loaded from another server"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "//cdn.example/x.css is loaded from another server"),
        ('<img srcset="a.png 1x, https://cdn.example/b.png 2x">', "https://cdn.example/b.png is loaded from another"),
        ('<iframe src="http://cdn.example/"></iframe>', "is loaded from another server"),
        ('<p style="background: url(https://cdn.example/a.png)">', "is loaded from another server"),
        ("<style>@import 'https://cdn.example/a.css';</style>", "is loaded from another server"),
        ('<a href="nothing.html">x</a>', "nothing.html leads nowhere"),
        ('<a href="#nothing">x</a>', "#nothing: index.html has no element of this name"),
        ('<a href="folder/">x</a>', "folder/ leads nowhere"),
        ('<a href="../secret.html">x</a>', "../secret.html leads out of the site"),
        ('<script src="missing.js"></script>', "missing.js leads nowhere"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, body: str, fault: str) -> None:
    assert any(fault in problem for problem in site(tmp_path, body))


def test_a_fault_names_page_and_line(tmp_path: Path) -> None:
    (found,) = site(tmp_path, '<p>\n<a href="nothing.html">x</a>')
    assert found == "index.html:3: nothing.html leads nowhere"


@pytest.mark.parametrize(
    "body",
    [
        '<a href="https://example.com/">elsewhere</a>',
        '<a href="mailto:a@example.com">mail</a>',
        '<img src="data:image/png;base64,AAAA">',
        '<a href="other.html#there">x</a>',
        '<a href="sub/">x</a>',
        '<link rel="canonical" href="https://example.com/">',
        '<a id="here" href="#here">x</a>',
    ],
)
def test_what_is_in_order_is_not_reported(tmp_path: Path, body: str) -> None:
    assert not site(tmp_path, body, other_html='<p id="there">', sub__index_html="<p>")


def test_style_sheets_are_read_too(tmp_path: Path) -> None:
    assert site(tmp_path, "", a_css="@font-face { src: url('https://fonts.example/a.woff2'); }")


def test_a_folder_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1
