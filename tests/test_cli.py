"""The command line, in this process where possible."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import webbrowser
from pathlib import Path
from typing import Any

import pytest

import nki_lab
from nki_lab import cli, codes, query
from nki_lab.cli import report
from nki_lab.cli.kernels import value_of
from nki_lab.diagnostic import Span, diagnose
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import synthetic

ROOT = Path(__file__).parents[1]
KERNELS = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def double(a, factor=2.0):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(a), factor))
        return out

    @nki.jit
    def wide(a):
        acc = nl.ndarray((64, 600), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.ndarray((128, 600), dtype=nl.bfloat16))

    other = 3
"""


def written(folder: Path, text: str, name: str = "kernels.py") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    return file


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    return str(written(tmp_path, KERNELS))


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    return captured.out, captured.err


def process(*arguments: str, folder: Path, **keywords: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run([sys.executable, "-m", "nki_lab", *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False, timeout=120, **keywords)  # fmt: skip


# -- run --------------------------------------------------------------------------------------------------------------


def test_a_script_runs_with_the_dialects_its_arguments_and_its_folder(tmp_path: Path) -> None:
    written(tmp_path, KERNELS)
    written(
        tmp_path,
        """
        import sys
        import numpy as np
        from kernels import double
        print(__name__, sys.argv, double(np.ones((2, 2), np.float32)).tolist())
        """,
        "script.py",
    )
    done = process("run", str(tmp_path / "script.py"), "--flag", "value", folder=ROOT)
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout == f"__main__ {[str(tmp_path / 'script.py'), '--flag', 'value']} [[2.0, 2.0], [2.0, 2.0]]\n"


def test_running_leaves_the_process_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "import sys; print(sys.argv)", "script.py")
    before = list(sys.argv), list(sys.path), dict(os.environ)
    assert cli.main(["run", "--target", "trn1", str(file), "x"]) == 0
    assert (sys.argv, sys.path, dict(os.environ)) == before
    assert said(capsys)[0] == f"{[str(file), 'x']}\n"


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [("import sys; sys.exit(3)", 3, ""), ("import sys; sys.exit()", 0, ""), ("raise SystemExit('so')", 1, "so\n"),
     ("raise KeyboardInterrupt", 130, "cancelled\n")],
)  # fmt: skip
def test_a_script_decides_its_exit_status(
    text: str, status: int, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", str(written(tmp_path, text, "script.py"))]) == status
    assert said(capsys) == ("", error)


def test_a_script_sees_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    file = written(tmp_path, "import nki.isa as nisa; print(nisa.get_nc_version().name)", "script.py")
    assert cli.main(["run", "--target", "gen2", str(file)]) == 0
    assert said(capsys)[0] == "gen2\n"
    assert cli.main(["run", "--target", "trn9", str(file)]) == 1
    assert "NKI004" in said(capsys)[1]


def test_a_kernels_fault_is_shown_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, KERNELS)
    with file.open("a", encoding="utf-8") as stream:
        stream.write("import numpy as np\nwide(np.ones((128, 64), nl.bfloat16))\n")
    assert cli.main(["run", "--target", "trn2", str(file)]) == 1
    out, error = said(capsys)
    assert out == ""
    assert error.startswith("NKI213 nc_matmul")
    assert f"{file}:{1 + file.read_text(encoding='utf-8').split('nc_matmul')[0].count(chr(10))}:" in error
    assert "Traceback" not in error
    assert cli.main(["run", "--target", "trn2", "--traceback", str(file)]) == 1
    assert "Traceback" in said(capsys)[1]


def test_a_scripts_own_error_is_shown_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "def f():\n    return 1 / 0\n\n\nf()\n", "script.py")
    assert cli.main(["run", str(file)]) == 1
    _, error = said(capsys)
    assert "NKI007 the script raised ZeroDivisionError: division by zero" in error
    assert f"{file}:2:12" in error
    assert "Traceback" not in error
    assert cli.main(["run", "--traceback", str(file)]) == 1
    assert "Traceback" in said(capsys)[1]


def test_a_script_that_is_no_python_is_shown_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "x = 1\ny = (2,\nz = = 3\n", "script.py")
    assert cli.main(["run", str(file)]) == 1
    _, error = said(capsys)
    assert "NKI101" in error
    assert f"{file}:" in error


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothere.py", "NKI018 .*nothere.py does not exist"),
        (".", "NKI018 . is a folder"),
        ("", "NKI018 the path of the file is empty"),
    ],
)
def test_a_script_that_is_not_there_is_said(name: str, says: str, tmp_path: Path) -> None:
    written(tmp_path, "", "not_here.py")
    done = process("run", name, folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.match(says, done.stderr)
    assert "Traceback" not in done.stderr


def test_an_interrupted_script_ends_with_130(tmp_path: Path) -> None:
    """However slow the machine is: the script waits for the signal, and this test for its end."""
    text = """import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with it ignored
print("ready", flush=True)
while True:
    signal.pause()
"""
    file = written(tmp_path, text, "script.py")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "nki_lab", "run", str(file)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, error = child.communicate()
    assert child.returncode == 130
    assert error == "cancelled\n"


# -- compile ----------------------------------------------------------------------------------------------------------


def test_a_program_is_printed(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "compile",
        f"{kernels}::double",
        "--arg",
        "a=bfloat16[128, 512]",
        "--arg",
        "factor=3",
        "--target",
        "trn2",
    ]
    assert cli.main(arguments) == 0
    out, _ = said(capsys)
    assert out.startswith("program double target=NeuronCore-v3 dialect=current\n")
    assert "input 'a'" in out
    assert "tensor_scalar" in out


@pytest.mark.parametrize(
    ("kernel", "values", "says"),
    [
        ("::double", [], "NKI003 double is called without its argument a"),
        ("::double", ["a=bfloat16[128,512]", "b=1"], "NKI002"),
        ("::double", ["a=floaty[128,512]"], "NKI012 --arg a=floaty[128,512]: 'floaty' is no NKI dtype"),
        ("::double", [f"a=float32[{'9' * 5000},64]"], "a size has 5000 digits, at most 4300 can be read"),
        ("::double", [f"a={'9' * 5000}"], "the value has 5000 digits, at most 4300 can be read"),
        ("::", [], "kernels.py::my_kernel"),
        ("::double", ["a=bfloat16[0]"], "NKI307"),
        ("::double", ["a=bfloat16[128"], "neither a tensor nor a constant"),
        ("::double", ["a"], "--arg a has no NAME=VALUE"),
        ("::dubble", [], "has no kernel dubble"),
        ("::other", [], "has no kernel other"),
        ("", [], "names no kernel"),
        ("::wide", ["a=bfloat16[128,64]"], "NKI213"),
    ],
)
def test_a_wrong_command_to_compile_is_said(
    kernel: str, values: list[str], says: str, kernels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [part for value in values for part in ("--arg", value)]
    assert cli.main(["compile", f"{kernels}{kernel}", *given, "--target", "trn2"]) == 1
    out, error = said(capsys)
    assert out == ""
    assert says in error


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n=4", 4),
        ("x=1e-3", 1e-3),
        ("f=True", True),
        ("t=(1, 2)", (1, 2)),
        ("s='a b'", "a b"),
        ("m=fast", "fast"),
        ("z=None", None),
    ],
)
def test_constants_on_the_command_line_are_python_constants(text: str, value: Any) -> None:
    name, found = value_of(text)
    assert (name, found, type(found)) == (text[0], value, type(value))


def test_a_program_is_printed_as_data(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", f"{kernels}::double", "--arg", "a=bfloat16[128,512]", "--target", "trn2", "--emit", "json"]
    assert cli.main(arguments) == 0
    found = json.loads(said(capsys)[0])
    assert (found["kernel"], found["dialect"], found["diagnostics"]) == ("double", "current", [])
    assert found["summary"] == {"target": "trn2", "cores": 1, "instructions": 3, "flops": 0, "dma_bytes": 262144,
                                "hbm_read_bytes": 131072, "hbm_write_bytes": 131072}  # fmt: skip
    assert [item["name"] for item in found["instructions"]] == ["dma_copy", "tensor_scalar", "dma_copy"]
    scaling = found["instructions"][1]
    assert (scaling["engine"], scaling["line"], scaling["function"]) == ("vector", 8, "double")
    assert scaling["attributes"]["operand0"] == 2.0
    assert scaling["operands"]["dst"]["role"] == "out"
    assert found["buffers"][scaling["operands"]["data"]["buffer"]]["space"] == "sbuf"
    assert found["returns"] == [1]


def test_a_dtype_on_the_command_line_is_one() -> None:
    assert str(value_of("d=bfloat16")[1]) == "bfloat16"


@pytest.mark.parametrize(
    ("given", "example"),
    [
        ("::k", "kernels.py::k"),
        ("a.py::", "a.py::my_kernel"),
        ("a.py", "a.py::my_kernel"),
        ("", "kernels.py::my_kernel"),
    ],
)
def test_an_incomplete_kernel_is_completed_in_the_example(
    given: str, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compile", given]) == 1
    assert f"{given!r} names no kernel" in (error := said(capsys)[1])
    assert f"for example {example}\n" in error


def test_a_file_in_a_folder_that_may_not_be_entered_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, KERNELS)

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert cli.main(["compile", f"{file}::double"]) == 1
    assert f"NKI018 {file}: Permission denied" in said(capsys)[1]


@pytest.mark.parametrize("command", ["compile", "profile"])
def test_a_null_character_is_told_at_its_place(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, 'import nki\nx = "a\0"\n')
    assert cli.main([command, f"{file}::k"]) == 1
    error = said(capsys)[1]
    assert "NKI101 the source contains a null character" in error
    assert f"{file}:2:7" in error


def test_a_long_trip_count_is_refused(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", f"{kernels}::double", *DOUBLE, "--trip-count", f"i={'9' * 5000}"]) == 1
    assert "NKI012 --trip-count i: N has 5000 digits, at most 4300 can be read" in said(capsys)[1]


# -- profile ----------------------------------------------------------------------------------------------------------

DOUBLE = ["--arg", "a=bfloat16[128,512]", "--target", "trn2"]


def test_a_kernel_is_profiled_as_text(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", f"{kernels}::double", *DOUBLE]) == 0
    out, error = said(capsys)
    assert error == ""
    assert re.match(r"double on trn2: [\d.]+ µs, [\d.]+ to [\d.]+, 3 instructions\n", out)
    assert "critical path" in out
    assert f"{Path(kernels).name}:8" in out


def test_a_profile_as_json_has_the_names_of_the_contract(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", f"{kernels}::double", *DOUBLE, "--format", "json"]) == 0
    found = json.loads(said(capsys)[0])
    assert {"makespan_ns", "instructions", "engine_busy_ns", "critical_path_ns", "stall_ns", "dma_bytes", "flops",
            "sbuf_peak_bytes_per_partition", "psum_peak_bytes_per_partition", "hbm_read_bytes", "hbm_write_bytes",
            "mfu", "hfu", "mbu", "confidence", "target", "makespan_interval_ns", "makespan_interval_basis",
            "makespan_interval_notes"} <= set(found)  # fmt: skip
    assert (found["kernel"], found["target"], found["instructions"], found["diagnostics"]) == ("double", "trn2", 3, [])


def test_a_profile_is_written_in_every_form(kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = {name: tmp_path / name for name in ("report.html", "trace.pftrace", "run.nkirec", "profile", "tables")}
    given = ["--html", str(places["report.html"]), "--perfetto", str(places["trace.pftrace"]),
             "--save", str(places["run.nkirec"]), "--explorer", str(places["profile"]),
             "--csv", str(places["tables"])]  # fmt: skip
    assert cli.main(["profile", f"{kernels}::double", *DOUBLE, *given, "--format", "json"]) == 0
    makespan = json.loads(said(capsys)[0])["makespan_ns"]
    assert places["report.html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert places["trace.pftrace"].stat().st_size > 100
    assert nki_lab.open(places["run.nkirec"]).summary.makespan_ns == makespan
    assert len(nki_lab.open(places["profile"]).recording) == 3
    assert {file.name for file in places["tables"].iterdir()} == {"instructions.csv", "lanes.csv", "lines.csv"}


@pytest.mark.parametrize("option", ["--html", "--perfetto", "--save", "--explorer", "--csv"])
def test_a_place_that_cannot_be_written_is_said_and_nothing_else(
    option: str, kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    before = sorted(item.name for item in tmp_path.iterdir())
    place = str(tmp_path / "file" / "out")
    assert cli.main(["profile", f"{kernels}::double", *DOUBLE, option, place]) == 1
    out, error = said(capsys)
    assert out == ""
    assert error.startswith("NKI021 ")
    assert "Traceback" not in error
    assert sorted(item.name for item in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("kernel", "values", "says"),
    [
        ("::double", [], "NKI003"),
        ("::double", ["a=bfloat16[128"], "neither a tensor nor a constant"),
        ("::dubble", ["a=bfloat16[4,4]"], "has no kernel dubble"),
        ("", [], "names no kernel"),
        ("::wide", ["a=bfloat16[128,64]"], "NKI213"),
    ],
)
def test_a_wrong_command_to_profile_is_said(
    kernel: str, values: list[str], says: str, kernels: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [part for value in values for part in ("--arg", value)]
    assert cli.main(["profile", f"{kernels}{kernel}", *given, "--target", "trn2"]) == 1
    out, error = said(capsys)
    assert out == ""
    assert says in error
    assert cli.main(["profile", f"{kernels}::double", "--arg", "a=bfloat16[4,4]", "--target", "trn9"]) == 1
    assert "NKI004" in said(capsys)[1]


# -- check ------------------------------------------------------------------------------------------------------------


def test_errors_in_a_file_end_with_status_1(kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", kernels, "--target", "trn2", "--format", "json"]) in (0, 1)
    json.loads(said(capsys)[0])
    bad = written(tmp_path, "import nki\n\n@nki.jit\ndef k(a):\n    return [x for x in a.shape]\n", "bad.py")
    assert cli.main(["check", str(bad), "--format", "json"]) == 1
    found = json.loads(said(capsys)[0])
    assert "NKI103" in {item["code"] for item in found}
    item = next(item for item in found if item["code"] == "NKI103")
    assert (item["file"], item["line"], item["severity"], item["outcome"]) == (str(bad), 5, "error", "reject")


def test_a_folder_is_checked_file_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / ".hidden").mkdir()
    text = "import nki\n\n@nki.jit\ndef k(a):\n    return (lambda x: x)(a)\n"
    for name in ("a.py", "inner/b.py", ".hidden/c.py", "notes.txt"):
        written(tmp_path, text, name)
    assert cli.main(["check", str(tmp_path), "--format", "json"]) == 1
    found = json.loads(said(capsys)[0])
    assert {Path(item["file"]).name for item in found} == {"a.py", "b.py"}


def test_a_file_that_is_not_there_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(tmp_path / "none.py"), "--format", "json"]) == 1
    (found,) = json.loads(said(capsys)[0])
    assert found["code"] == "NKI018"


def test_a_clean_file_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(written(tmp_path, "x = 1\n"))]) == 0
    assert said(capsys)[0] == "no findings\n"


FOUND = [
    diagnose(
        "NKI103",
        "100 % a comprehension,\nof two lines",
        span=Span("a:b,c.py", 3, 5, 4, 9),
        limit="the rule",
        help="help",
    ),
    diagnose("NKI308", "nothing is written"),
]


def test_findings_as_text_are_counted() -> None:
    text = report.text(FOUND)
    assert text.startswith("error: NKI103 100 % a comprehension")
    assert text.endswith("1 error, 1 warning")
    assert report.text([]) == "no findings"


def test_findings_as_json_have_the_names_of_the_contract() -> None:
    first, second = json.loads(report.as_json(FOUND))
    assert {"code", "outcome", "severity", "message", "file", "line", "column", "end_line", "end_column", "help",
            "related"} <= set(first)  # fmt: skip
    assert (first["line"], first["column"], first["end_line"], first["end_column"]) == (3, 5, 4, 9)
    assert second["file"] == ""
    assert json.loads(report.as_json([])) == []


def test_findings_for_github_are_one_escaped_line_each() -> None:
    first, second = report.github(FOUND).splitlines()
    assert first == (
        "::error file=a%3Ab%2Cc.py,line=3,endLine=4,title=NKI103::"
        "100 %25 a comprehension,%0Aof two lines; the rule; help"
    )
    assert second == "::warning title=NKI308::nothing is written"


def test_findings_as_sarif_name_rules_and_places() -> None:
    (run,) = json.loads(report.FORMATS["sarif"](FOUND))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["NKI103", "NKI308"]
    first, second = run["results"]
    assert first["level"] == "error"
    assert first["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 3, "startColumn": 5, "endLine": 4, "endColumn": 9,
    }  # fmt: skip
    assert second["locations"] == []


# -- explain, doctor, demo --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NKI213", "nki213", "moving-limit", "moving_limit"])
def test_a_code_is_explained_by_number_and_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", name]) == 0
    out, _ = said(capsys)
    assert out.startswith("# NKI213: ")
    assert "## Use instead" in out


def test_every_code_has_a_page_and_is_found_by_its_aliases() -> None:
    for code in codes.all_codes():
        assert report.explain(code.code).startswith(f"# {code.code}: {code.title}")
        for alias in code.aliases:
            assert alias in report.explain(alias)


@pytest.mark.parametrize("name", ["nc_matmul", "nisa.nc_matmul", "nki.isa.nc_matmul"])
def test_an_instruction_is_explained_with_its_limits(name: str) -> None:
    text = report.explain(name)
    assert "nisa.nc_matmul(dst, stationary, moving" in text
    assert "**Limits**" in text
    assert text == query.explain(name)


def test_a_function_of_the_language_is_explained() -> None:
    assert "nl.load(src" in report.explain("nl.load")
    assert "nisa.reciprocal(" in report.explain("reciprocal")
    assert "nl.reciprocal(" in report.explain("nl.reciprocal")
    assert "descriptors" in report.explain("nisa.dge_mode.hwdge")


@pytest.mark.parametrize("name", ["nl.arange", "nki.language.arange", "arange"])
def test_a_removed_name_is_explained_by_what_replaced_it(name: str) -> None:
    assert report.explain(name).startswith("`nl.arange` was removed (NKI603).\n\nInstead: ")


def test_an_unknown_name_to_explain_suggests_the_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "nc_matmull"]) == 1
    assert "did you mean nc_matmul" in said(capsys)[1]


def test_the_doctor_tells_versions_and_the_target(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert cli.main(["doctor"]) == 0
    out, _ = said(capsys)
    assert out.split()[:2] == ["nki_lab", nki_lab.__version__]
    assert "target in force: trn1" in out
    assert "functions of NKI 0.6.0 modelled" in out
    assert "(from NEURON_PLATFORM_TARGET_OVERRIDE)" in out


def test_the_demo_agrees_with_its_references_and_writes_a_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo"]) == 0
    out, error = said(capsys)
    assert error == ""
    assert out.count("agrees") == 2
    assert "bfloat16[1024,512]" in out
    for name in ("matmul", "softmax"):
        assert re.search(rf"^{name} on trn2: [\d.]+ µs, [\d.]+ to [\d.]+, \d+ instructions$", out, re.MULTILINE)
    assert out.count("SBUF ") == out.count("busy  ") == 2
    assert out.endswith("demo-report.html\n")
    assert (tmp_path / "demo-report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_demo_that_disagrees_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nki_lab.demo._softmax", lambda x: x)
    assert cli.main(["demo", "--html", "other.html"]) == 1
    out, _ = said(capsys)
    assert out.count("agrees") == out.count("DIFFERS") == 1
    assert (tmp_path / "other.html").is_file()


# -- the command line itself ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [[], ["bogus"], ["explain"], ["check"], ["run"], ["check", "x", "--format", "xml"]], ids=str
)
def test_a_wrong_command_line_ends_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(arguments)
    assert leaving.value.code == 2
    assert "usage: nki-lab" in said(capsys)[1]


def test_help_lists_the_commands_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--help"])
    assert leaving.value.code == 0
    out, _ = said(capsys)
    for name in ("run", "check", "compile", "profile", "explain", "demo", "doctor"):
        assert name in out


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert process("--version", folder=tmp_path).stdout == f"nki-lab {nki_lab.__version__}\n"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -m nki_lab explain NKI213 | head -c 1; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.stdout == "#"


# -- view --------------------------------------------------------------------------------------------------------------


def test_a_saved_run_is_shown_in_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    seen: list[tuple[str, int, int]] = []

    def look() -> None:
        (file,) = tmp_path.glob("nki-lab-*/k.html")
        assert opened == [file.as_uri()]
        text = file.read_text(encoding="utf-8")
        seen.append((text[:15], file.parent.stat().st_mode & 0o777, file.parent.stat().st_uid))
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cli, "_wait_for_reader", look)
    Recording(synthetic(20), {"kernel": "k"}).save(tmp_path / "k.nkirec")
    assert cli.main(["view", str(tmp_path / "k.nkirec")]) == 0
    assert seen == [("<!DOCTYPE html>", 0o700, os.getuid())]
    assert capsys.readouterr().out.endswith("k.html\n")
    assert [path.name for path in tmp_path.iterdir()] == ["k.nkirec"]


def test_the_page_of_a_saved_run_is_written_where_it_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Recording(synthetic(20), {"kernel": "k"}).save(tmp_path / "k.nkirec")
    assert cli.main(["view", str(tmp_path / "k.nkirec"), "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()
    folders = [str(tmp_path / "profile"), str(tmp_path / "tables")]
    assert cli.main(["view", str(tmp_path / "k.nkirec"), "--explorer", folders[0], "--csv", folders[1]]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == folders
    assert len(nki_lab.open(folders[0]).recording) == 20
    assert cli.main(["view", str(tmp_path / "none"), "--html", str(tmp_path / "other.html")]) == 1
    assert "NKI018" in capsys.readouterr().err


def test_an_index_error_of_simulate_kernel_is_shown_as_the_finding_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = written(
        tmp_path,
        """
        import numpy as np
        from neuronxcc import nki
        import neuronxcc.nki.language as nl

        @nki.jit(mode="simulation")
        def picked(table, rows):
            out = nl.ndarray((2, 8), table.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(table[nl.load(rows), nl.arange(8)[None, :]]))
            return out

        picked(np.zeros((4, 8), np.float32), np.array([[1], [4]], np.int32))
        """,
        "script.py",
    )
    assert cli.main(["run", str(script)]) == 1
    assert "NKI310" in (shown := "".join(said(capsys)))
    assert "script.py:8" in shown
