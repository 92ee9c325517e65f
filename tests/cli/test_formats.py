"""SARIF and GitHub annotations, held against what their readers require."""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab import cli, codes
from nki_lab.cli import report
from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose
from nki_lab.printable import printable

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=12)
SPANS = st.builds(
    lambda name, line, column, lines, width: Span(name, line, column, line + lines, column + width),
    NAMES.map(lambda name: f"k{name}.py") | NAMES.map(lambda name: f"{name}.ipynb:cell 3"),
    st.integers(1, 99), st.integers(1, 99), st.integers(0, 3), st.integers(0, 9),
)  # fmt: skip
FOUND = st.lists(
    st.builds(
        lambda code, message, span, remedy, more: diagnose(
            code, message or "m", span=span, help=remedy, related=more
        ),
        st.sampled_from([item.code for item in codes.all_codes()]), TEXTS, st.none() | SPANS, TEXTS,
        st.lists(st.builds(Related, TEXTS, st.none() | SPANS), max_size=2),
    ), max_size=4,
)  # fmt: skip


def an_object(required: str = "", **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object", "properties": properties, "required": required.split(), "additionalProperties": False,
    }  # fmt: skip


def a_list(of: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": of, "minItems": least}


TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer", "minimum": 0}
PLACE_IN_TEXT: Final = {"type": "integer", "minimum": 1}
MESSAGE: Final = an_object("text", text=TEXT)
REGION: Final = an_object(
    "startLine", startLine=PLACE_IN_TEXT, startColumn=PLACE_IN_TEXT, endLine=PLACE_IN_TEXT, endColumn=PLACE_IN_TEXT
)
ARTIFACT: Final = an_object("uri", uri={"type": "string", "pattern": "^[!-~]+$"}, uriBaseId={"const": "ROOT"})
PHYSICAL: Final = an_object("artifactLocation", artifactLocation=ARTIFACT, region=REGION)
LOCATION: Final = an_object("physicalLocation", physicalLocation=PHYSICAL, id=COUNT, message=MESSAGE)
REPLACEMENT: Final = an_object("deletedRegion", deletedRegion=REGION, insertedContent=MESSAGE)
CHANGE: Final = an_object(
    "artifactLocation replacements", artifactLocation=ARTIFACT, replacements=a_list(REPLACEMENT, 1)
)
FIX: Final = an_object("artifactChanges", description=MESSAGE, artifactChanges=a_list(CHANGE, 1))
LEVEL: Final = {"enum": ["none", "note", "warning", "error"]}
RESULT: Final = an_object(
    "message ruleId",
    ruleId=TEXT,
    ruleIndex=COUNT,
    level=LEVEL,
    message=MESSAGE,
    locations=a_list(LOCATION),
    relatedLocations=a_list(LOCATION, 1),
    fixes=a_list(FIX, 1),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
)
RULE: Final = an_object(
    "id shortDescription fullDescription help helpUri",
    id=TEXT,
    name=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=an_object("text", text=TEXT, markdown=TEXT),
    helpUri={"type": "string", "pattern": "^https://[!-~]+$"},
    defaultConfiguration=an_object(level=LEVEL),
    properties=an_object(
        "tags", tags=a_list(TEXT), **{"problem.severity": {"enum": ["error", "warning", "recommendation"]}}
    ),
)
DRIVER: Final = an_object("name", name=TEXT, semanticVersion=TEXT, informationUri=TEXT, rules=a_list(RULE))
RUN: Final = an_object(
    "tool results",
    tool=an_object("driver", driver=DRIVER),
    invocations=a_list(an_object("executionSuccessful", executionSuccessful={"type": "boolean"})),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    originalUriBaseIds={"type": "object", "additionalProperties": ARTIFACT},
    results=a_list(RESULT),
)
LOG: Final = an_object("version runs", **{"$schema": TEXT}, version={"const": "2.1.0"}, runs=a_list(RUN, 1))
"""What SARIF 2.1.0 (OASIS, section 3) requires of the objects that we write, and nothing that it does not have."""


def check_location(location: dict[str, Any]) -> None:
    physical = location["physicalLocation"]
    artifact = physical["artifactLocation"]
    parts = urlsplit(artifact["uri"])
    assert artifact["uri"].isascii()
    assert " " not in artifact["uri"]
    assert parts.scheme == ("file" if "uriBaseId" not in artifact else "")
    assert not parts.query
    assert not parts.fragment
    region = physical.get("region")
    if region is not None:
        assert all(type(value) is int and value >= 1 for value in region.values())
        assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


@given(FOUND)
def test_sarif_has_what_version_2_1_0_requires(found: list[Diagnostic]) -> None:
    log = json.loads(report.FORMATS["sarif"](found))
    jsonschema.Draft7Validator(LOG).validate(log)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "nki-lab"
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    for base in run["originalUriBaseIds"].values():
        assert base["uri"].startswith("file:///")
        assert base["uri"].endswith("/")
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(identifiers) == len(set(identifiers))
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["fullDescription"]["text"].endswith((".", ":"))
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note", "none")
    assert len(run["results"]) == len(found)
    for result, item in zip(run["results"], found, strict=True):
        assert identifiers[result["ruleIndex"]] == result["ruleId"] == item.code
        assert result["level"] in ("error", "warning", "note", "none")
        assert result["message"]["text"]
        assert len(result["locations"]) == (item.span is not None)
        related = result.get("relatedLocations", [])
        assert len(related) == sum(part.span is not None for part in item.related) + len(item.places)
        assert len({part["id"] for part in related}) == len(related)
        for location in (*result["locations"], *related):
            check_location(location)
        assert all("text" in part["message"] for part in related)


@given(FOUND)
def test_an_annotation_is_one_line_that_reads_back(found: list[Diagnostic]) -> None:
    text = report.github(found)
    lines = text.split("\n") if found else []
    assert len(lines) == len(found)
    assert "\r" not in text
    for line, item in zip(lines, found, strict=True):
        _, head, message = line.split("::", 2)
        level, _, properties = head.partition(" ")
        assert level in ("error", "warning", "notice")
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        assert pairs["title"] == item.code
        assert unquote(message).startswith(printable(item.message))
        if item.span is not None:
            assert unquote(pairs["file"]) == printable(item.span.file.removesuffix(":cell 3"))
            assert ("line" in pairs) == (not item.span.file.endswith(":cell 3"))


def test_paths_are_those_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside = diagnose("NKI101", "m", span=Span(str(tmp_path / "a b" / "ü#.py"), 1, 1, 1, 3))
    outside = diagnose("NKI101", "m", span=Span("/elsewhere/k.py", 1, 1, 1, 3))
    first, second = json.loads(report.FORMATS["sarif"]([inside, outside]))["runs"][0]["results"]
    place = first["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "a%20b/%C3%BC%23.py", "uriBaseId": "ROOT"}
    assert second["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///elsewhere/k.py"}
    assert report.github([inside]) == "::error file=a b/ü#.py,line=1,endLine=1,col=1,endColumn=2,title=NKI101::m"


def test_a_finding_in_a_notebook_names_the_cell() -> None:
    item = diagnose("NKI101", "m", span=Span("a.ipynb:cell 3", 2, 1, 2, 3))
    (result,) = json.loads(report.FORMATS["sarif"]([item]))["runs"][0]["results"]
    assert result["message"]["text"] == "m (cell 3, line 2)"
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "a.ipynb", "uriBaseId": "ROOT"}}}]
    assert report.github([item]) == "::error file=a.ipynb,title=NKI101::m (cell 3, line 2)"


def test_the_arguments_of_a_call_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(
        "import nki, nki.isa as nisa, nki.language as nl, numpy as np\n@nki.jit\ndef k(x):\n"
        "    a = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)\n    nisa.dma_copy(dst=x, src=x[0:65])\n"
        "    nisa.dma_copy(dst=x, src=x[0:66])\n    nisa.dma_copy(dst=x, src=x[0:67])\n"
        "k(np.zeros((128, 64), np.float32))\nk(np.zeros((128, 65), np.float32))\n"
    )
    cli.main(["check", str(tmp_path)])
    told = capsys.readouterr().out
    assert told.count("with the arguments of this call: k(float32[128,64])") == 1
    assert told.count(f"with the same arguments ({tmp_path / 'k.py'}:8:1)") >= 2
    cli.main(["check", str(tmp_path), "--format", "json"])
    found = [part for item in json.loads(capsys.readouterr().out) for part in item["related"]]
    assert [(part["message"], part["line"]) for part in found[1:] if part["line"] == 8] == [
        ("with the same arguments", 8)
    ] * 2


FAULTS = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def k(x):
    t = nl.ndarray((128, 4), dtype=nl.flaot16, buffer=nl.sbuf)
    nisa.memset(t, valu=0)
    nisa.memset(t, valu=0)
    return x
"""


def results(folder: Path, *more: str) -> list[dict[str, Any]]:
    """The results in the SARIF file of a check."""
    linecache.clearcache()  # which a process of its own would not have
    cli.main(["check", str(folder), "--sarif", str(folder / "out.sarif"), *more])
    log = json.loads((folder / "out.sarif").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(LOG).validate(log)
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def test_a_fix_mends_its_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ü k.py").write_text(FAULTS, encoding="utf-8")
    (misspelt,) = [item for item in results(tmp_path) if item["ruleId"] == "NKI006"]
    (change,) = misspelt["fixes"][0]["artifactChanges"]
    assert unquote(change["artifactLocation"]["uri"]) == "ü k.py"
    (edit,) = change["replacements"]
    region = edit["deletedRegion"]
    line = FAULTS.splitlines()[region["startLine"] - 1]
    mended = line[: region["startColumn"] - 1] + edit["insertedContent"]["text"] + line[region["endColumn"] - 1 :]
    assert "dtype=nl.float16," in mended


def test_fingerprints_stay_when_lines_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "k.py"
    file.write_text(FAULTS, encoding="utf-8")
    before = [item["partialFingerprints"] for item in results(tmp_path)]
    assert len({json.dumps(item) for item in before}) == len(before) > 3
    file.write_text(f"# a line\n\n{FAULTS}", encoding="utf-8")
    assert [item["partialFingerprints"] for item in results(tmp_path)] == before


def test_findings_are_printed_whatever_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(FAULTS, encoding="utf-8")
    written = results(tmp_path, "--format", "github")
    assert len(capsys.readouterr().out.splitlines()) == len(written)
    assert cli.main(["check", str(tmp_path), "--sarif", str(tmp_path / "nowhere" / "out.sarif")]) == 1
    said = capsys.readouterr()
    assert "NKI006" in said.out
    assert "NKI021" in said.err


def test_a_notebook_has_fingerprints_of_its_cells(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": "%%nki\n" + FAULTS}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (tmp_path / "n.ipynb").write_text(text, encoding="utf-8")
    found = results(tmp_path)
    assert found
    assert not [item for item in found if "fixes" in item]
    assert len({json.dumps(item["partialFingerprints"]) for item in found}) == len(found)
