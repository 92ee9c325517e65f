"""The cache of profiles on disk: the same profile in another process, and no other one."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import nki_lab
from nki_lab.cli import main
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import cache_folder
from nki_lab.result import cached_profile, calls
from nki_lab.result.profile_cache import ProfileCache

pytestmark = pytest.mark.extended

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl
from helper import scale

LOOPS = 3

@nki.jit
def chain(x, rounds=2):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(LOOPS * rounds):
        scale(tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
HELPER = """
import nki.isa as nisa
import nki.language as nl

FACTOR = 2.0

def scale(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=FACTOR)
"""
SCRIPT = """
import json, sys
import nki_lab
nki_lab.activate()
from nki_lab.result import calls
calls.SECONDS = 0.0
from kernel import chain
shape, dtype, target, rounds = json.loads(sys.argv[1])
run = nki_lab.profile(chain, nki_lab.spec(tuple(shape), dtype), rounds=rounds, target=target)
run.to_html(sys.argv[2])
told = [repr(run), run.executed, run.summary.bottlenecks]
print(json.dumps([type(run).__name__, [run.summary.makespan_ns, *told], len(run.diagnostics)]))
"""


class Project:
    """A folder with a kernel, profiled by processes of their own that share a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        (folder / "kernel.py").write_text(KERNEL)
        (folder / "helper.py").write_text(HELPER)
        (folder / "script.py").write_text(SCRIPT)

    def start(self, *asked: Any) -> subprocess.Popen[str]:
        given = json.dumps(asked or ((128, 512), "float32", "trn2", 2))
        environment = os.environ | {"NKI_LAB_CACHE": str(self.cache), "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "script.py", given, "page.html"]
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True)

    def profile(self, *asked: Any) -> tuple[bool, str, bytes]:
        """Return whether the profile came from the cache, its time with what else is told of it, and its page."""
        process = self.start(*asked)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        kind, told, _ = json.loads(out)
        return kind == "CachedProfile", json.dumps(told), (self.folder / "page.html").read_bytes()

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_second_process_has_the_same_profile(project: Project) -> None:
    first, second = project.profile(), project.profile()
    assert (first[0], second[0]) == (False, True)
    assert first[1:] == second[1:]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("kernel.py", "LOOPS = 3", "LOOPS = 4"),
        ("helper.py", "FACTOR = 2.0", "FACTOR = 3.0"),
        ("helper.py", "operand0=FACTOR)", "operand0=FACTOR, reverse0=True)"),
        ("kernel.py", "    for _", "    # a comment\n    for _"),
        ("kernel.py", "rounds=2", "rounds=2.0 and 2"),
    ],
)
def test_an_edit_counts(project: Project, name: str, old: str, new: str) -> None:
    project.profile()
    project.edit(name, old, new)
    assert not project.profile()[0]
    assert project.profile()[0]


def test_arguments_and_target_count(project: Project) -> None:
    project.profile()
    for asked in (
        ((64, 512), "float32", "trn2", 2),
        ((128, 512), "bfloat16", "trn2", 2),
        ((128, 512), "float32", "trn3", 2),
        ((128, 512), "float32", "trn2", 1),
    ):
        assert not project.profile(*asked)[0]


def test_a_damaged_entry_is_dropped(project: Project) -> None:
    project.profile()
    (entry,) = project.cache.iterdir()
    for file in entry.iterdir():
        file.write_bytes(b"import os; os.abort()" + file.read_bytes()[20:])
    assert not project.profile()[0]
    assert project.profile()[0]


def test_a_folder_that_others_may_write_to_is_not_used(project: Project) -> None:
    project.profile()
    project.cache.chmod(0o777)
    assert not project.profile()[0]
    project.cache.chmod(0o700)
    assert project.profile()[0]


def test_processes_share_a_cache(project: Project) -> None:
    running = [project.start() for _ in range(4)]
    found = [json.loads(process.communicate(timeout=180)[0]) for process in running]
    assert len({json.dumps(told) for _, told, _ in found}) == 1
    assert [item.name.endswith(".nkirec") for item in project.cache.iterdir()] == [True]
    assert project.profile()[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileCache:
    monkeypatch.setenv("NKI_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calls, "SECONDS", 0.0)
    return ProfileCache(tmp_path / "cache")


def profile(columns: int = 512, **options: Any) -> nki_lab.Run:
    from tests.session.test_plans import scaled

    return nki_lab.profile(scaled, nki_lab.spec((128, columns), "float32"), target="trn2", **options)


def test_a_cached_profile_answers_as_the_first_one_does(here: ProfileCache, tmp_path: Path) -> None:
    first, second = profile(), profile()
    assert type(second) is cached_profile.CachedProfile
    assert dict(second.summary) == dict(first.summary)
    assert second.diagnostics == first.diagnostics and second.ok and repr(second) == repr(first)
    assert second.program.text() == first.program.text()
    assert second.report() == first.report()
    assert second.on("trn3").summary.makespan_ns == first.on("trn3").summary.makespan_ns
    assert "makespan" in str(second)
    second.save(tmp_path / "again.nkirec")
    assert dict(nki_lab.open(tmp_path / "again.nkirec").summary) == dict(first.summary)


def test_strict_profiles_and_short_ones_are_made_anew(here: ProfileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(strict=True)
    monkeypatch.setattr(calls, "SECONDS", 60.0)
    profile()
    assert here.entries() == []


def test_the_entries_unused_for_longest_go_first(here: ProfileCache) -> None:
    for number, columns in enumerate((512, 256, 128)):
        profile(columns)
        for entry in here.entries():
            os.utime(entry.path, (entry.used - 100, entry.used - 100))
        assert len(here.entries()) == number + 1
    oldest = here.entries()[-1].path
    small = ProfileCache(here.folder, sum(item.nbytes for item in here.entries()) - 1)
    small._shrink(here.entries()[0].path)
    assert not oldest.exists() and len(here.entries()) == 2


def test_the_disk_may_refuse(here: ProfileCache, monkeypatch: pytest.MonkeyPatch) -> None:
    here.folder.parent.mkdir(exist_ok=True)
    here.folder.write_text("a file")
    assert profile().ok and profile().ok
    here.folder.unlink()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nki_lab.kernel_runtime.recording.folder.write", full)
    assert profile().ok
    assert list(here.folder.iterdir()) == []


OPEN: Final = Path("/proc/self/fd")


@pytest.mark.skipif(not OPEN.is_dir(), reason="the system does not list open files")
def test_profiles_that_are_at_hand_keep_no_files_open(here: ProfileCache) -> None:
    profile()
    before = len([*OPEN.iterdir()])
    kept = [profile() for _ in range(5)]
    assert all(isinstance(item, cached_profile.CachedProfile) for item in kept)
    assert len([*OPEN.iterdir()]) == before


def test_an_entry_stays_where_the_process_has_too_many_files_open(
    here: ProfileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile()
    with monkeypatch.context() as patched:

        def opened(_: Path) -> None:
            raise OSError(errno.EMFILE, "Failed to open local file")

        patched.setattr("nki_lab.kernel_runtime.recording.stored._opened", opened)
        (entry,) = here.entries()
        assert here.find(entry.path.name.removesuffix(".nkirec")) is None
        with pytest.raises(NkiError, match="not read: Too many open files"):
            nki_lab.open(entry.path)
    assert isinstance(profile(), cached_profile.CachedProfile)


def test_the_command_says_why_a_folder_is_not_used(here: ProfileCache, capsys: pytest.CaptureFixture[str]) -> None:
    here.folder.mkdir(parents=True)
    assert main(["cache"]) == 0
    assert "not used" not in capsys.readouterr().out
    here.folder.chmod(0o775)
    assert main(["cache"]) == 0
    assert "not used  others may write into it" in capsys.readouterr().out
    here.folder.rmdir()
    here.folder.symlink_to(here.folder.parent / "nowhere")
    assert main(["cache", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_used"] == "it is a link that leads nowhere"


@pytest.mark.parametrize("name", ["x" * 5000, "\udcff"], ids=["long", "no-text"])
def test_a_folder_of_any_name_keeps_no_profile_from_being_made(
    name: str, here: ProfileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_LAB_CACHE", str(here.folder / name))
    for _ in range(2):
        assert profile().ok


def test_a_tilde_stands_for_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("NKI_LAB_CACHE", "~/x")
    assert cache_folder() == tmp_path / "x"


def test_the_command_shows_and_clears_the_cache(here: ProfileCache, capsys: pytest.CaptureFixture[str]) -> None:
    profile()
    (here.folder / "notes.txt").write_text("not ours")
    assert main(["cache", "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["profiles"] == 1 and facts["bytes"] > 0 and facts["folder"] == str(here.folder)
    assert main(["cache", "--clear"]) == 0
    assert "removed   1" in capsys.readouterr().out
    assert [item.name for item in here.folder.iterdir()] == ["notes.txt"]


def test_off_means_off(here: ProfileCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NKI_LAB_CACHE", "off")
    profile()
    assert not here.folder.exists()
    assert main(["cache"]) == 0
    assert "switches the cache off" in capsys.readouterr().out
