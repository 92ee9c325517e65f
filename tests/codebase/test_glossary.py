"""Names keep to the glossary, and first sentences, titles and messages have a subject and a verb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "nki_lab"
OPENERS = re.compile(r"(What|Who|Where|Which)\b")
_MAKERS = ("diagnose", "coded_error")  # functions whose second argument is a message


def not_used(text: str) -> tuple[set[str], set[str]]:
    """Return the words of the glossary's table "Not used", in singular and plural, and the names that may contain one."""
    words: set[str] = set()
    allowed: set[str] = set()
    rows = re.findall(r"^\|(.*)\|(.*)\|(.*)\|$", text.partition("## Not used")[2], flags=re.MULTILINE)
    for banned, _, exceptions in rows[2:]:
        for word in re.sub(r"\(.*?\)", "", banned).split(","):
            if re.fullmatch(r"[a-z]+", word := word.strip()):
                words |= {word, f"{word}es" if word.endswith("s") else f"{word}s"}
        allowed |= set(re.findall(r"`(\w+)`", exceptions))
    return words, allowed


WORDS, ALLOWED = not_used((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))


def parts(name: str) -> list[str]:
    """Return the words of a name in snake_case or CamelCase."""
    return re.findall(r"[a-z]+|[A-Z]+(?![a-z])", re.sub(r"([A-Z][a-z])", lambda found: f"_{found[0].lower()}", name))


def is_banned(name: str) -> bool:
    """Whether a name has one of the words as a part, and is no exception."""
    return name not in ALLOWED and any(part.lower() in WORDS for part in parts(name))


@cache
def trees() -> dict[Path, ast.Module]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef))


def banned_names(file: Path, tree: ast.Module) -> list[str]:
    """Return the names of a module, its classes and functions that have a banned word, with their places."""
    found = [f"{file}:{node.lineno} {node.name}" for node in definitions(tree) if is_banned(node.name)]
    return found + [str(file)] * any(is_banned(part) for part in (*file.parts[:-1], file.stem))


def opening_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return docstrings and the texts with which messages of diagnostics open, with their lines."""
    for node in (tree, *definitions(tree)):
        if text := ast.get_docstring(node):
            yield getattr(node, "lineno", 1), text
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in _MAKERS:
            for argument in node.args[1:2]:
                first = argument.values[0] if isinstance(argument, ast.JoinedStr) and argument.values else argument
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield node.lineno, first.value


def questions(file: Path, tree: ast.Module) -> list[str]:
    """Return the texts of a module that open with a relative or an interrogative pronoun."""
    return [f"{file}:{line} {text.splitlines()[0]}" for line, text in opening_texts(tree) if OPENERS.match(text)]


def test_names_have_no_word_that_the_glossary_replaces() -> None:
    assert not [item for file, tree in trees().items() for item in banned_names(file, tree)]


def test_docstrings_and_messages_open_with_a_subject_or_a_verb() -> None:
    assert not [item for file, tree in trees().items() for item in questions(file, tree)]


def test_titles_of_codes_open_with_a_subject() -> None:
    titles = {file.stem: re.findall(r"^title: (.*)$", file.read_text("utf-8"), flags=re.MULTILINE)
              for file in (PACKAGE / "codes").glob("*.md")}  # fmt: skip
    assert all(titles.values())
    assert not {name: title for name, (title, *_) in titles.items() if OPENERS.match(title)}


def test_an_exception_occurs() -> None:
    names = {node.name for tree in trees().values() for node in definitions(tree)}
    names |= {part for file in trees() for part in (*file.parts[:-1], file.stem)}
    assert names >= ALLOWED


@pytest.mark.parametrize(("name", "banned"), [
    ("door_of", True), ("FrontDoors", True), ("_told", True), ("LoopPass", True), ("passes", True), ("indoor", False),
    ("bypass", False), ("HTTPWorld", True), ("shelves", True), ("interface", False), ("floor_plan", True),
])  # fmt: skip
def test_a_word_is_banned_as_a_part_of_a_name(name: str, banned: bool) -> None:
    assert is_banned(name) == banned


def test_what_is_wrong_is_found() -> None:
    tree = ast.parse('''"""What is here."""
class Room:
    """Rooms."""
    def told(self):
        """Where
        it is."""
        diagnose("NKI001", f"Who {self}", help="Which")
''')  # fmt: skip
    assert banned_names(Path("a/window.py"), tree) == ["a/window.py:2 Room", "a/window.py:4 told", "a/window.py"]
    assert questions(Path("a/b.py"), tree) == ["a/b.py:1 What is here.", "a/b.py:4 Where", "a/b.py:7 Who "]
