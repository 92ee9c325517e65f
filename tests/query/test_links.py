"""Where links about codes and names lead: one module decides."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from nki_lab import codes, query
from nki_lab.query import links


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """The metadata is read again."""
    links.site.cache_clear()
    yield
    links.site.cache_clear()


def declare(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    """Let the package's metadata list these URLs."""
    message = Message()
    for url in urls:
        message["Project-URL"] = url
    monkeypatch.setattr(importlib.metadata, "metadata", lambda _name: message)


def test_without_a_site_the_packaged_page_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, "Homepage, https://example.org", "Documentation, https://example.org/tree")
    for entry in codes.all_codes():
        path = Path(unquote(urlsplit(links.code_link(entry.code)).path))
        assert f"code: {entry.code}" in path.read_text(encoding="utf-8")
    assert links.name_link("nki.isa.nc_matmul") == ""


def test_a_declared_site_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, "Homepage, https://example.org", "Site, https://docs.example.org/nki/")
    assert links.code_link("NKI213") == "https://docs.example.org/nki/codes/NKI213.html"
    assert links.name_link("nki.isa.nc_matmul") == "https://docs.example.org/nki/reference/isa/nc_matmul.html"
    assert links.name_link("neuronxcc.nki.language.load").endswith("/reference/language/load.html")
    assert links.name_link("nki.language.of_no_release") == ""
    text = "import nki.isa as nisa\n\n\ndef f():\n    nisa.nc_matmul()\n"
    assert "https://docs.example.org/nki/reference/isa/nc_matmul.html" in str(query.hover(text, 5, 12))


def test_what_is_no_code_has_no_link() -> None:
    assert links.code_link("NKI999") == ""


def test_without_metadata_there_is_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Message:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "metadata", missing)
    assert links.site() == ""
    assert links.code_link("NKI213").startswith("file:")
