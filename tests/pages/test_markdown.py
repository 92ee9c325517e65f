"""Links and pictures of the site's pages."""

from __future__ import annotations

import pytest

from scripts.pages import markdown
from scripts.pages.markdown import linked, of_the_site, page_of


def test_codes_and_names_lead_to_their_pages() -> None:
    assert linked("see NKI213") == "see [NKI213](/codes/NKI213.md)"
    assert linked("`nisa.nc_matmul`") == "[`nisa.nc_matmul`](/reference/isa/nc_matmul.md)"
    assert linked("`nl.ds(start, size)`") == "[`nl.ds(start, size)`](/reference/language/ds.md)"


@pytest.mark.parametrize(
    "text",
    [
        "NKI999",  # no such code
        "`NKI213`",
        "[NKI213](x.md)",
        "# NKI213: a heading",
        "```python\nNKI213 = nl.add\n```",
        "[`nl.add`](x.md)",
        "`nl.nothing_of_this_name`",
        "`nisa.nc_matmul.anything`",
        "my/NKI213",
    ],
)
def test_what_is_no_mention_stays_as_it_is(text: str) -> None:
    assert linked(text) == text


def test_a_page_does_not_link_to_itself() -> None:
    assert linked("NKI213, NKI204", own="NKI213") == "NKI213, [NKI204](/codes/NKI204.md)"
    assert linked("`nl.add`", own="add") == "`nl.add`"


def test_links_between_documents_become_those_of_the_site() -> None:
    assert of_the_site("[t](timing.md#the-walk)", "docs/values.md") == "[t](/timing.md#the-walk)"
    assert of_the_site("[t](../docs/timing.md)", "docs/values.md") == "[t](/timing.md)"
    assert of_the_site("[r](../README.md)", "docs/values.md") == "[r](/index.md)"
    assert of_the_site("[x](https://example.com/a)", "docs/values.md") == "[x](https://example.com/a)"
    assert of_the_site("[x](#here)", "docs/values.md") == "[x](#here)"


def test_calls_in_code_are_no_links() -> None:
    text = "`nki.trace(kernel)[grid](a)` and [`kernel`](timing.md)"
    assert of_the_site(text, "docs/x.md") == "`nki.trace(kernel)[grid](a)` and [`kernel`](/timing.md)"


def test_files_of_the_repository_lead_to_pages_made_of_them() -> None:
    assert page_of("nki_lab/codes/moving-limit.md") == "codes/NKI213.md"
    assert page_of("examples/kernels/k01_add.py") == "gallery/k01_add.md"
    assert page_of("examples/kernels") == "gallery/index.md"
    assert page_of("docs/adr") == ""
    assert page_of("nki_lab/__init__.py") == ""


def test_a_file_without_a_page_is_named_or_shown_in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[numbers](../benchmarks/published.json)"
    monkeypatch.setattr(markdown, "repository", lambda: "")
    assert of_the_site(text, "docs/accuracy.md") == "numbers (`benchmarks/published.json`)"
    monkeypatch.setattr(markdown, "repository", lambda: "https://example.com/r/blob/main")
    assert (
        of_the_site(text, "docs/accuracy.md") == "[numbers](https://example.com/r/blob/main/benchmarks/published.json)"
    )


def test_a_picture_of_both_themes_becomes_one_for_each() -> None:
    text = (
        '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="images/a-dark.png">\n'
        '  <img alt="A" src="images/a-light.png">\n</picture>\n'
    )
    assert of_the_site(text, "docs/values.md").strip().split("\n\n") == [
        "![A](images/a-light.png){.only-light}",
        "![A](images/a-dark.png){.only-dark}",
    ]


def test_a_frame_s_title_is_text() -> None:
    assert "<script>" not in markdown.frame("x.html", "<script>", depth=1)
    assert 'src="../../_static/runs/x.html"' in markdown.frame("x.html", "t", depth=2)
