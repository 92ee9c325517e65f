"""Where the command line writes, and what it says of places and outputs that do not take it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nki_lab
from nki_lab import cli
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import synthetic

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
FORMS = ("--html", "--perfetto", "--explorer", "--csv", "--save")
KERNEL = """
import nki
import nki.language as nl


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out
"""
POSIX = pytest.mark.skipif(os.name == "nt", reason="names are bytes, and outputs files, on POSIX only")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    Recording(synthetic(20), {"kernel": "k"}).save(tmp_path / "run.nkirec")
    return tmp_path / "run.nkirec"


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return f"{tmp_path / 'kernel.py'}::copied"


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which `nki-lab` stands for ours."""
    text = command.replace("nki-lab", f"{sys.executable} -m nki_lab")
    return subprocess.run(["bash", "-c", text], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
                          check=False, timeout=120)  # fmt: skip


@pytest.mark.parametrize("option", FORMS)
def test_an_empty_path_is_a_wrong_command_line(option: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["view", str(run), option, ""])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: argument {option}: the path is empty\n")


@pytest.mark.parametrize("command", [["check", "--fix"], ["migrate", "--write"], ["signatures", "--clear"]])
def test_an_empty_path_is_not_the_folder_at_hand(
    command: list[str], kernel: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(kernel.partition("::")[0]).parent)
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, ""])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith("error: argument PATH: the path is empty\n")


@pytest.mark.parametrize("pair", [("--html", "--perfetto"), ("--explorer", "--csv"), ("--csv", "--save")])
def test_two_forms_in_one_place_are_refused_before_anything_is_written(
    pair: tuple[str, str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "out"), os.path.join(tmp_path, ".", "out")  # noqa: PTH118 - as it is typed
    assert cli.main(["view", str(run), pair[0], first, pair[1], second]) == 1
    assert capsys.readouterr().err.startswith(f"NKI012 {pair[0]} and {pair[1]} name the same place, {second}\n")
    assert [item.name for item in tmp_path.iterdir()] == ["run.nkirec"]


@pytest.mark.parametrize(
    ("options", "name"),
    [(["--arg", "a=float32[128,4]"], "--arg a"), (["--trip-count", "i=4", "--trip-count", "i=5"], "--trip-count i")],
)
@pytest.mark.parametrize("command", ["profile", "sweep"])
def test_what_is_given_once_for_each_name_may_not_come_twice(
    options: list[str], name: str, command: str, kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, kernel, "--arg", "a=float32[128,8]", *options]) == 1
    assert capsys.readouterr().err.startswith(f"NKI012 {name} stands twice\n")


def test_a_folder_that_is_missing_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["view", str(run), "--html", str(tmp_path / "none" / "run.html")]) == 1
    found = capsys.readouterr().err
    assert f"not written: there is no folder {tmp_path / 'none'}\n" in found
    assert "make the folder first" in found


def test_a_misspelt_recording_gets_the_nearest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", str(run), str(run.with_name("run.nkirc"))]) == 1
    assert "did you mean run.nkirec?" in capsys.readouterr().err
    assert cli.main(["view", ""]) == 1
    assert capsys.readouterr().err.startswith("NKI018 the path of the recording is empty\n")


def test_one_colon_before_a_kernel_is_told_to_be_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profile", "kernel.py:copied"]) == 1
    assert "for example kernel.py::copied\n" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["x", "0", "-3", "1.5", ""])
def test_a_wrong_number_of_processes_is_told(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["check", ".", f"--jobs={number}"])
    assert f"argument --jobs: {number!r} is no number of processes" in capsys.readouterr().err


def test_a_script_from_a_pipe_is_told_to_be_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "-"]) == 1
    assert "save the text as a file" in capsys.readouterr().err


@POSIX
def test_names_that_are_not_utf_8_are_names(run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    places = {option: str(tmp_path / os.fsdecode(b"out\xe9" + option.encode())) for option in FORMS}
    try:
        Path(places["--csv"]).touch()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    Path(places["--csv"]).unlink()
    assert cli.main(["view", str(run), *(word for pair in places.items() for word in pair)]) == 0
    for option in ("--save", "--explorer"):
        assert len(nki_lab.open(places[option]).recording) == 20
    assert capfd.readouterr().err == ""


@POSIX
def test_a_kernel_in_a_folder_whose_name_is_not_utf_8_is_profiled_and_checked(
    kernel: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / os.fsdecode(b"d\xe9") / "kernel.py"
    try:
        file.parent.mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    file.write_text(KERNEL, encoding="utf-8")
    words = ["profile", f"{file}::copied", "--arg", "a=float32[128,8]"]
    assert cli.main([*words, *(word for name in FORMS for word in (name, str(tmp_path / name)))]) == 0
    assert "d\\udce9/kernel.py" in nki_lab.open(tmp_path / "--save").recording.row(0).file
    assert cli.main(["check", str(file)]) == 0
    assert "NKI901" not in capfd.readouterr().out


@POSIX
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("command", ["compare run.nkirec run.nkirec", "cache --format json", "explain nc_matmul"])
def test_an_output_on_a_full_disk_is_told(command: str, run: Path, tmp_path: Path) -> None:
    done = shell(f"nki-lab {command} > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("NKI021 the output: not written: No space left on device\n")
    assert "Traceback" not in done.stderr


@POSIX
def test_without_an_output_commands_do_their_work(run: Path, tmp_path: Path) -> None:
    done = shell("nki-lab view run.nkirec --csv out >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "lanes.csv").is_file()


@POSIX
@pytest.mark.parametrize("closed", [">&-", "2>&- >/dev/null", ">&- 2>&-"])
@pytest.mark.parametrize("command", ["check k.py", "check k.py --format json", "migrate k.py", "explain nc_matmul"])
def test_a_closed_output_changes_no_status(command: str, closed: str, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("import nki\n", encoding="utf-8")
    done = shell(f"nki-lab {command} {closed}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@POSIX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_page_of_a_view_goes_with_a_process_that_is_ended(
    number: signal.Signals, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "pages").mkdir()
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path / "pages"), "BROWSER": "true"}
    with subprocess.Popen([sys.executable, "-m", "nki_lab", "view", str(run)], env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as viewing:  # fmt: skip
        assert viewing.stdout is not None
        page = Path(viewing.stdout.readline().strip())
        assert page.is_file()
        time.sleep(0.5)  # the browser is being opened
        viewing.send_signal(number)
        assert viewing.wait(20) == 128 + number
    assert not list((tmp_path / "pages").iterdir())


def test_an_interrupt_while_modules_are_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nki_lab import __main__ as entry

    def interrupted(_words: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert entry.main(["cache"]) == 130
    assert capsys.readouterr().err == "cancelled\n"
