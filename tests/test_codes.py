"""The catalogue of codes is complete, consistent with the sources, and cheap to have."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nki_lab
from nki_lab import codes
from tests.every import for_each

PACKAGE = Path(nki_lab.__file__).parent
FOLDER = PACKAGE / "codes"
FILES = sorted(FOLDER.glob("*.md"))

ALL = codes.all_codes()
EVERY = for_each(ALL)

# Codes that no source names yet, with the part that emits them. A code leaves this list when its emitter names it.
NOT_NAMED_YET: dict[str, tuple[int, ...]] = {}


def sections(body: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    assert not parts[0].strip()
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def fences(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_every_file_is_one_code() -> None:
    assert len(ALL) == len(FILES) == len({code.code for code in ALL})
    assert {code.slug for code in ALL} == {file.stem for file in FILES}
    assert [code.code for code in ALL] == sorted(code.code for code in ALL)


@EVERY
def test_front_matter_is_in_form(code: codes.Code) -> None:
    assert re.fullmatch(r"NKI[0-9]{3}", code.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.slug)
    assert code.title == code.title.strip()
    assert 8 < len(code.title) < 80
    assert not code.title.endswith(".")
    assert codes.get(code.code) is codes.get(code.code)


@EVERY
def test_outcome_and_severity_agree(code: codes.Code) -> None:
    assert (code.severity == "error") == (code.outcome in ("fault", "reject"))
    assert code.outcome in codes.OUTCOMES
    assert code.severity in codes.SEVERITIES


@EVERY
def test_exception_is_a_builtin(code: codes.Code) -> None:
    assert getattr(builtins, code.exception.__name__) is code.exception
    assert issubclass(code.exception, Exception)
    assert not issubclass(code.exception, Warning)


@EVERY
def test_sections_are_there_in_order_and_say_something(code: codes.Code) -> None:
    found = sections(code.body)
    assert tuple(found) == codes.SECTIONS
    assert all(len(text) > 15 for text in found.values())
    for name in ("Example", "Use instead"):
        assert fences(found[name]), f"{name} has no code"
    for name in ("What it does", "Why it matters on the chip", "References"):
        assert found[name].endswith("."), f"{name} is not a sentence"


@EVERY
def test_examples_are_python(code: codes.Code) -> None:
    languages = {language for language, _ in fences(code.body)}
    others = {
        "NKI024": {"toml"},
        "NKI025": {"sh"},
        "NKI026": {"sh"},
        "NKI101": {"python", "text"},
        "NKI124": {"python", "toml"},
    }
    assert languages <= others.get(code.code, {"python"})
    for language, source in fences(code.body):
        if language == "python":
            ast.parse(textwrap.dedent(source))
        elif language == "toml":
            tomllib.loads(source)
        elif language == "text":
            with pytest.raises(SyntaxError):
                ast.parse(source)


@EVERY
def test_examples_use_current_nki(code: codes.Code) -> None:
    """The corrected code never shows what other codes refuse."""
    instead = sections(code.body)["Use instead"]
    for gone in ("mask=", "nl.arange", "nl.mgrid", "nl.par_dim", "neuronxcc", "affine_range", "jit(mode=", 'buffer="'):
        assert gone not in "".join(source for _, source in fences(instead))


@for_each(FILES)
def test_files_are_short_and_narrow(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").split("\n")
    assert len(lines) <= 52
    assert all(len(line) <= 120 for line in lines if not line.startswith("aliases:"))
    assert not [line for line in lines if line != line.rstrip()]


def test_aliases_are_the_manual_s_names_and_mean_one_code() -> None:
    aliases = [alias for code in ALL for alias in code.aliases]
    assert len(aliases) == len(set(aliases))
    assert all(re.fullmatch(r"(err|rule|removed)_[a-z0-9_]+", alias) for alias in aliases)
    assert len(aliases) >= 20


# What the sources name


def source_files() -> list[Path]:
    return [file for file in sorted(PACKAGE.rglob("*.py")) if file.parent != FOLDER]


def named_in(file: Path) -> Iterator[str]:
    """The codes that are string constants of a source file, doc strings aside."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"NKI\d{3}", node.value):
            yield node.value


def test_every_code_that_a_source_mentions_has_a_file() -> None:
    known = {code.code for code in ALL}
    for file in source_files():
        mentioned = set(re.findall(r"\bNKI\d{3}\b", file.read_text(encoding="utf-8")))
        assert mentioned <= known, f"{file}: {sorted(mentioned - known)}"


def test_no_code_is_an_orphan_without_a_reason() -> None:
    named = {code for file in source_files() for code in named_in(file)}
    excused = {f"NKI{number:03}" for numbers in NOT_NAMED_YET.values() for number in numbers}
    assert excused <= {code.code for code in ALL}
    assert not {code.code for code in ALL} - named - excused


# The loader


@pytest.mark.parametrize("text", ["NKI213", "nki213", " NKI213\n", "moving-limit", "Moving-Limit", "moving_limit"])
def test_a_code_is_found_by_any_of_its_names(text: str) -> None:
    assert codes.find(text) is codes.get("NKI213")


def test_a_code_is_found_by_the_manual_s_name() -> None:
    assert codes.find("err_num_partition_exceed_arch_limit") is codes.get("NKI204")
    assert codes.find("ERR_UNSUPPORTED_MEMORY") is codes.get("NKI201")


@EVERY
def test_every_name_of_a_code_finds_it(code: codes.Code) -> None:
    for name in (code.code, code.slug, *code.aliases):
        assert codes.find(name) is code


@pytest.mark.parametrize("text", ["", " ", "NKI", "NKI999", "213", "moving", "../moving-limit", "nki-213", "\0"])
def test_what_names_no_code_finds_none(text: str) -> None:
    assert codes.find(text) is None


@pytest.mark.parametrize("code", ["NKI999", "nki213", "moving-limit", "", " NKI213"])
def test_an_unknown_code_is_our_mistake(code: str) -> None:
    with pytest.raises(KeyError, match="no file in nki_lab/codes declares"):
        codes.get(code)


def test_a_code_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        codes.get("NKI213").severity = "hint"  # type: ignore[misc]


def test_importing_reads_no_catalogue_file() -> None:
    script = """
        import sys
        opened = []
        sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
        import nki_lab.codes
        assert not [name for name in opened if name.endswith(".md")], opened
        nki_lab.codes.get("NKI213")
        assert [name for name in opened if name.endswith("moving-limit.md")]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=PACKAGE.parent)


def test_the_loader_imports_nothing_of_the_package() -> None:
    tree = ast.parse((FOLDER / "__init__.py").read_text(encoding="utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [item.name for node in ast.walk(tree) if isinstance(node, ast.Import) for item in node.names]
    assert not [name for name in modules if name.startswith("nki_lab")]


@pytest.fixture
def emptied() -> Iterator[Callable[[], None]]:
    """A function that empties the loader's caches; they are empty again afterwards."""

    def clear() -> None:
        for cached in (codes._entries, codes._names, codes._parse):
            cached.cache_clear()

    clear()
    yield clear
    clear()


def test_the_first_look_reads_each_file_once_and_parses_the_one_that_is_asked_for(
    emptied: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    read = Path.read_text

    def counted(path: Path, *args: Any, **options: Any) -> str:
        opened.append(path)
        return read(path, *args, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    for _ in range(3):
        codes.get("NKI213")
    assert sorted(opened) == sorted(FOLDER.glob("*.md"))
    assert codes._parse.cache_info().currsize == 1


GOOD = (
    "---\ncode: NKI900\ntitle: T\noutcome: advice\nseverity: hint\nexception: ValueError\naliases: err_a, err_b\n---\n"
)


def test_a_file_is_read_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emptied: Callable[[], None]
) -> None:
    monkeypatch.setattr(codes, "_FOLDER", tmp_path)
    (tmp_path / "some-slug.md").write_text(GOOD + "\n## What it does\n\na: b\n---\nc\n\n", encoding="utf-8")
    assert codes.all_codes() == (
        codes.Code(
            code="NKI900",
            slug="some-slug",
            title="T",
            outcome="advice",
            severity="hint",
            exception=ValueError,
            aliases=("err_a", "err_b"),
            body="## What it does\n\na: b\n---\nc\n",
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("outcome: advice", "outcome: advise", "outcome 'advise'"),
        ("severity: hint", "severity: fatal", "severity 'fatal'"),
        ("exception: ValueError", "exception: NkiError", "not a built-in exception"),
        ("exception: ValueError", "exception: print", "not a built-in exception"),
        ("exception: ValueError", "exception: KeyboardInterrupt", "not a built-in exception"),
        ("title: T\n", "", "front matter has"),
        ("title: T\n", "name: T\n", "front matter has"),
        ("code: NKI900", "code:", "no code in its front matter"),
        ("---\ncode", "x\n---\ncode", "text above the front matter"),
    ],
)
def test_a_malformed_file_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    emptied: Callable[[], None],
    old: str,
    new: str,
    message: str,
) -> None:
    monkeypatch.setattr(codes, "_FOLDER", tmp_path)
    (tmp_path / "bad.md").write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^bad\.md: .*{re.escape(message)}"):
        codes.get("NKI900")


def test_two_files_cannot_share_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emptied: Callable[[], None]
) -> None:
    monkeypatch.setattr(codes, "_FOLDER", tmp_path)
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    with pytest.raises(ValueError, match=r"b\.md: NKI900 is taken"):
        codes.get("NKI900")
