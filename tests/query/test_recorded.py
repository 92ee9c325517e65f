"""The checker evaluates recorded calls under which functions reach more."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_lab import query
from nki_lab.call_records import store
from nki_lab.call_records.store import CallRecord
from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import arch_of
from nki_lab.query import Document, EvaluationRequest, Examination
from tests.call_records.projects import HELPERS, KERNELS, project

TILE = {"tensor": "float32[128,512]", "memory": "sbuf"}
CONFIG = {"object": "Config", "fields": {"width": 512, "layout": {"member": "Layout.rows"}}}


def scale(wide: bool = False, **more: object) -> CallRecord:
    arguments = {"tile": TILE, "factor": 2.0, "config": CONFIG, "wide": wide}
    return CallRecord(arguments=arguments | more, inner=True, target="trn2", origins=("tests/test_double.py::test_a",))


def double(columns: int = 512, **more: object) -> CallRecord:
    arguments = {"x": {"tensor": f"float32[128,{columns}]"}, "config": CONFIG} | more
    return CallRecord(arguments=arguments, target="trn2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the project without its tests, whose calls the checker would find."""
    made = project(tmp_path)
    (made / "tests" / "test_double.py").unlink()
    return made


def examined(file: Path, **calls: list[CallRecord]) -> Examination:
    """Examine a file after its calls have been recorded."""
    if calls:
        table = {(file.name, name): tuple(found) for name, found in calls.items()}
        store.update(file.parent, lambda _: table)
    document = Document(str(file))
    document.update(file.read_text(encoding="utf-8"))
    return document.examine(EvaluationRequest(arch=arch_of("trn2")))


def faults(found: Examination) -> list[Diagnostic]:
    return [item for item in found.findings if item.outcome == "fault"]


def changed(file: Path, old: str, new: str) -> Path:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    return file


def test_a_fault_of_a_helper_is_found_under_a_recorded_call_only(folder: Path) -> None:
    file = changed(folder / "helpers.py", "nisa.tensor_copy(dst=out", "nisa.tensor_copy(dst=out[:, 0:300]")
    assert not faults(examined(file))
    (fault,) = faults(examined(file, scale=[scale()]))
    assert fault.file == str(file)
    assert fault.related[-1].message == (
        "with the arguments of a recorded call: scale(tile=float32[128,512] in SBUF, factor=2.0, "
        "config=<Config object>, wide=False), from tests/test_double.py::test_a"
    )


def test_each_branch_is_reached_once_more(folder: Path) -> None:
    calls = [scale(), scale(factor=3.0), scale(wide=True), scale(wide=True, factor=3.0)]
    found = examined(folder / "helpers.py", scale=calls).recorded
    assert [(item.call.arguments["wide"], item.used) for item in found] == [
        (False, True),
        (True, True),
        (False, False),
        (True, False),
    ]
    assert found[0].reason == "it reaches 2 calls of NKI that others do not"
    assert found[1].reason == "it reaches 1 call of NKI that others do not"
    assert found[3].reason == "it reaches no call of NKI that others do not"


def test_a_kernel_without_other_shapes_is_evaluated(folder: Path) -> None:
    file = folder / "kernels.py"
    assert [item.code for item in examined(file).findings] == ["NKI121"]
    found = examined(file, double=[double()])
    assert not found.findings
    assert len([place for place in found.operations - found.unknown if place[0] == str(file)]) == 2
    changed(file, "nisa.dma_copy(dst=out", "nisa.dma_copy(dst=out[0:64]")
    assert [item.code for item in examined(file).findings] == ["NKI203"]


def test_shapes_of_the_source_come_first(folder: Path) -> None:
    file = changed(folder / "kernels.py", "def double(x,", "def double(x: nt.tensor[64, 512],")
    changed(file, "import nki\n", "import nki\nimport nki.typing as nt\n")
    found = examined(file, double=[double(), double(1024)])
    assert not [item for item in found.recorded if item.used]
    assert not faults(found)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (double(more=1), "double has no parameter more"),
        (CallRecord(arguments={"config": CONFIG}, target="trn2"), "the call has no value for x"),
        (double(x={"tensor": "float32"}), "'float32' is no tensor"),
        (double(x=[[[[[[[[[[1]]]]]]]]]]), "a value is too large"),
        (double(x={"call": "print"}), "a value is no data of a call"),
    ],
)
def test_a_call_that_does_not_fit_is_ignored(folder: Path, call: CallRecord, reason: str) -> None:
    found = examined(folder / "kernels.py", double=[call])
    assert [(item.stale, item.used, item.reason) for item in found.recorded] == [(True, False, reason)]
    assert [item.code for item in found.findings] == ["NKI121"]


def test_a_call_that_the_function_itself_refuses_is_stale(folder: Path) -> None:
    file = changed(
        folder / "kernels.py", "    tile = load", "    assert x.shape[1] == 128, 'narrow only'\n    tile = load"
    )
    found = examined(file, double=[double(512), double(128)])
    assert not faults(found)
    assert [(item.stale, item.used) for item in found.recorded] == [(False, True), (True, False)]
    assert "narrow only" in found.recorded[1].reason


def test_a_call_for_another_target_is_judged_by_that_one(folder: Path) -> None:
    text, file = "nisa.dma_copy(dst=out", folder / "kernels.py"
    call = CallRecord(arguments=double().arguments, target="trn1")
    found = examined(file, double=[call])
    assert [item.used for item in found.recorded] == [True]
    changed(file, text, f"{text}[0:64]")
    (fault,) = faults(examined(file))
    assert fault.related[-1].message.startswith("with the arguments of a recorded call on trn1: double(x=")


def test_many_calls_cost_a_bounded_time(folder: Path) -> None:
    calls = [double(128 * (number + 1)) for number in range(16)]
    found = examined(folder / "kernels.py", double=calls).recorded
    assert len(found) == 16
    assert (
        sum("were evaluated before it" in item.reason for item in found) == 10
    )  # both branches, and three without news


def test_arguments_given_to_check_are_the_only_ones(folder: Path) -> None:
    file = folder / "kernels.py"
    changed(file, "nisa.dma_copy(dst=out", "nisa.dma_copy(dst=out[0:64]")
    examined(file, double=[double()])
    spec = query.check(file, function="double", args=[], target="trn2")
    assert not [item for item in spec if item.code == "NKI203"]


@pytest.mark.parametrize("text", ["{", '{"version": 1, "functions": {"kernels.py::double": [3]}}', "[" * 10_000])
def test_a_hostile_file_changes_nothing(folder: Path, text: str) -> None:
    before = examined(folder / "kernels.py").findings
    place = store.place_of(folder)
    place.parent.mkdir()
    place.write_text(text)
    assert examined(folder / "kernels.py").findings == before


def test_what_a_helper_finds_in_memory_is_its_callers_affair(folder: Path) -> None:
    file = changed(folder / "helpers.py", "nisa.tensor_copy(dst=out, src=tile)", "nisa.tensor_copy(dst=tile, src=out)")
    assert not faults(examined(file, scale=[scale()]))


def test_the_project_of_the_tests_is_right(folder: Path) -> None:
    assert (folder / "helpers.py").read_text() == HELPERS.lstrip()
    assert (folder / "kernels.py").read_text() == KERNELS.lstrip()
