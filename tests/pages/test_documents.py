"""Documents as pages: what their blocks print stands below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.pages import documents
from scripts.pages.blocks import ROOT
from scripts.pages.documents import _TOP, BlockError, page, sources, unlisted
from scripts.pages.markdown import RUNS


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of a document of the repository."""
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    return tmp_path / "docs" / "page.md"


def made(document: Path, text: str) -> str:
    document.parent.mkdir(exist_ok=True)
    document.write_text(text, encoding="utf-8")
    return page("deep/page.md", document, document.parent / "out")


def test_output_stands_below_its_block(document: Path) -> None:
    text = made(
        document, "```python file=a.py\nx = 7\n```\n\n```python output=text\nfrom a import x\nprint(x)\n```\nEnd.\n"
    )
    assert "print(x)\n```\n\n```{code-block} text\n:class: output\n\n7\n```\n\nEnd." in text


def test_output_can_be_markdown(document: Path) -> None:
    assert "\n\n| a |\n|-|\n| 1 |\n" in made(document, '```python output=markdown\nprint("| a |\\n|-|\\n| 1 |")\n```\n')


def test_a_block_can_be_folded_away(document: Path) -> None:
    text = made(document, "```python output=text code=folded\nprint(3)\n```\n")
    assert text.startswith('<details class="code"><summary>')
    assert text.index("print(3)") < text.index("</details>") < text.index("\n3\n")


def test_the_output_of_commands_stands_below_them(document: Path) -> None:
    text = made(document, "```console exit=1 output=text\n$ nki-lab explain nothing_at_all\n```\n")
    assert ":class: output" in text


def test_a_block_that_fails_names_the_document_and_the_line(document: Path) -> None:
    with pytest.raises(BlockError, match=r"deep/page\.md: line 3 ended with 1(.|\n)*ZeroDivisionError"):
        made(document, "# T\n\n```python output=text\n1 / 0\n```\n")


def test_blocks_that_need_a_library_are_shown_and_not_run(document: Path) -> None:
    text = made(document, "```python needs=jax\nraise SystemExit(3)\n```\n\n```python output=text\nprint(1)\n```\n")
    assert "raise SystemExit(3)\n```\n\n```python" in text


def test_documents_that_show_no_output_are_not_run(document: Path) -> None:
    text = "```python\nraise SystemExit(3)\n```\n"
    assert made(document, text) == text


def test_places_of_the_folder_in_which_it_ran_are_not_shown(document: Path) -> None:
    text = made(document, "```python output=text\nprint(__import__('pathlib').Path('a.py').resolve())\n```\n")
    assert "\n\na.py\n```" in text


RUN = """```python view=run.html
import nki_lab

nki_lab.activate()
import nki
import nki.language as nl


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


nki_lab.profile(copied, nki_lab.spec((128, 64), "float32"), target="trn2").to_html("run.html")
```
"""


def test_a_run_that_a_block_writes_is_shown_in_a_frame(document: Path) -> None:
    text = made(document, RUN)
    assert '<iframe src="../_static/runs/deep-page-run.html"' in text
    written = (document.parent / "out" / RUNS / "deep-page-run.html").read_text(encoding="utf-8")
    assert '<script src="visualizer.js"></script>' in written
    assert len(written) < 60_000  # the views' script is not in it


def test_every_document_of_the_top_folder_is_in_a_table_of_contents() -> None:
    index = (ROOT / "docs" / "howto" / "index.md").read_text(encoding="utf-8")
    assert f"\n{documents._OTHERS}\n" in index
    text = page("howto/index.md", sources()["howto/index.md"], ROOT / "build")
    assert all(f"\n{name}\n" in text for name in unlisted("howto"))
    assert f"\n{documents._OTHERS}\n" not in text


def test_a_new_document_joins_and_a_listed_one_does_not(document: Path, tmp_path: Path) -> None:
    for name in ("listed", "named", "fresh", "howto/new", "howto/old", "adr/0001-x"):
        file = tmp_path / "docs" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("# T\n", encoding="utf-8")
    for name in _TOP:
        (tmp_path / name).write_text("# T\n```{toctree}\n/contributing\n/changelog\n```\n", encoding="utf-8")
    contents = "```{toctree}\nold\n/listed\nA name </named>\nothers\n```\n"
    (tmp_path / "docs" / "howto" / "index.md").write_text(contents, encoding="utf-8")
    assert unlisted("howto") == ["/fresh", "/howto/new"]
