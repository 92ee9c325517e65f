"""Labels, colours and enumerations stand once: in Python. The views have them from the generated schema."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path

from nki_lab import quantities
from nki_lab.export import formatting
from nki_lab.export.colours import COLOURS, LABELS
from nki_lab.kernel_runtime import vocabulary
from nki_lab.kernel_runtime.recording.bottlenecks import SENTENCES

LITERAL = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`")
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", re.DOTALL)
OTHER_MEANING = {
    ("views/timeline/header.ts", "Tensor"),  # colour by tensor, not the engine
    ("views/memory/head.ts", "Tensor"),  # the same
}


def sources(root: Path, *suffixes: str) -> Iterator[tuple[str, str]]:
    """Path and text, without comments, of the files of the views that are written by hand."""
    folder = root / "labextension" / "src"
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.suffix in suffixes and not name.startswith("_generated/"):
            yield name, COMMENT.sub("", file.read_text(encoding="utf-8"))


def labels() -> set[str]:
    """Every label of the schema that is not the name of a member as well."""
    stalls = {text for stall in vocabulary.STALLS for text in (stall.label, stall.short)}
    edges = {edge.label for edge in vocabulary.DEPENDENCES}
    tables = (vocabulary.KINDS, vocabulary.ROLE_LABELS, vocabulary.MEMORIES, SENTENCES)
    others = {text for table in tables for text in table.values()}
    members = {*vocabulary.STALL_REASONS, *vocabulary.EDGE_KINDS}
    return (stalls | edges | others | {vocabulary.DATA_FROM, quantities.THIN, formatting.ABOUT}) - members


def planted(text: str, wanted: set[str]) -> set[str]:
    """Which of some texts stand as literals in a source."""
    return wanted & {next(filter(None, found), "") for found in LITERAL.findall(text)}


def test_no_label_is_written_again_in_the_views(root: Path) -> None:
    found = {(name, label) for name, text in sources(root, ".ts") for label in planted(text, labels())}
    assert found - OTHER_MEANING == set()
    assert found >= OTHER_MEANING  # each exception is still needed


def test_no_colour_is_written_again_in_the_views(root: Path) -> None:
    colours = {*LABELS, *(shade for colour in COLOURS.values() for shade in (colour.light, colour.dark))}
    pattern = re.compile("|".join(colours), re.IGNORECASE)
    assert [(name, found[0]) for name, text in sources(root, ".ts", ".css") if (found := pattern.search(text))] == []


def enumerated(text: str, members: Sequence[str]) -> bool:
    """Check whether an array or a union of a source has all members of an enumeration."""
    return any(
        set(members) <= set(re.findall(r"'([^']*)'", found)) for found in re.findall(r"(?:'[^'\n]*'[\s,|]*)+", text)
    )


def test_no_enumeration_is_written_again_in_the_views(root: Path) -> None:
    known = runpy.run_path(str(root / "scripts" / "views_schema.py"))["enumerations"]()
    long = {name: members for name, members in known.items() if len(members) > 2 and name != "Memory"}
    assert {"Confidence", "EdgeKind", "Role", "Hue"} <= long.keys()
    found = [
        (file, name)
        for file, text in sources(root, ".ts")
        for name, members in long.items()
        if enumerated(text, members)
    ]
    assert found == []


def test_what_is_written_again_would_be_found() -> None:
    assert planted("const said = 'data from Vector';", labels()) == {"data from Vector"}
    assert planted('const said = "the Tensor Engine\'s clock to rise";', labels())
    assert enumerated("const ROLES = ['read', 'write', 'accumulate'];", vocabulary.ROLES)
    assert enumerated("type Role = 'write' | 'read' | 'accumulate';", vocabulary.ROLES)
    assert not enumerated("const ROLES = ['read', 'write'];", vocabulary.ROLES)
