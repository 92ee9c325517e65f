"""The pytest plugin as users meet it: sessions of tests in processes of their own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from nki_lab.pytest_plugin import activation
from nki_lab.pytest_plugin.kernel_calls import file_name

ROOT = Path(__file__).parents[2]

KERNELS = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def double(x, wrong=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    if wrong:
        nisa.tensor_tensor(dst=tile, data1=tile, data2=out, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:64, :], src=x[0:64, :])
    return out


@nki.jit
def stretched(x, shape=[2, 2]):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out
"""
TESTS = """
import os
import numpy as np
import pytest
import nki_lab
from kernels import double, stretched, unwritten

X = np.ones((128, 64), np.float32)


def test_passes():
    assert (double(X) == 2).all()

def test_asserts():
    assert (double(X) == 3).all()

@pytest.mark.parametrize("way", ["a/b", "CON:"])
def test_faults(way):
    double(X, wrong=True)

def test_expects():
    with pytest.raises(AssertionError):
        double(X, wrong=True)

def test_no_kernel():
    assert os.environ.get("NOTHING")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return a project with kernels and no tests; its sessions have this package, and no choice from outside."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in [name for name in os.environ if name.startswith(("NKI_", "NEURON_", "PYTEST_ADDOPTS", "PYTEST_XDIST"))]:
        monkeypatch.delenv(name)
    pytester.makepyfile(kernels=KERNELS)
    pytester.makeconftest("import nki")  # imported before any hook of a conftest could help
    return pytester


def session(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments, timeout=120)


@pytest.mark.slow
def test_without_being_asked_nothing_is_activated(project: pytest.Pytester) -> None:
    done = session(project)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*No module named 'nki'*"])


def test_a_failed_test_has_a_page_of_its_kernel(project: pytest.Pytester) -> None:
    project.makepyfile(test_kernels=TESTS)
    done = session(project, "--nki-target", "trn2", "--nki-report", "out/pages", "--junitxml", "junit.xml")
    done.assert_outcomes(passed=2, failed=4)
    done.stdout.fnmatch_lines(["nki-lab: kernels run on the simulator, for trn2", "*NKI kernels of failed tests*"])
    listed = re.findall(r"^  (\S+\.html)$", done.stdout.str(), re.MULTILINE)
    pages = sorted((project.path / "out" / "pages").iterdir())
    assert sorted(listed) == [str(page) for page in pages]
    assert len(pages) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9.-]+\.html", page.name) for page in pages)
    assert all("NKI201" in page.read_text(encoding="utf-8") for page in pages if "faults" in page.name)
    assert "test_no_kernel" not in done.stdout.str().partition("NKI kernels of failed tests")[2].partition("short")[0]
    assert (project.path / "junit.xml").is_file()


@pytest.mark.slow
def test_processes_write_and_one_lists(project: pytest.Pytester) -> None:
    project.makepyfile(test_kernels=TESTS)
    done = session(project, "--nki-target=trn2", "--nki-report=pages", "--nki-check", "-n", "2")
    done.assert_outcomes(passed=2, failed=4)
    listed = re.findall(r"^  (\S+\.html)$", done.stdout.str(), re.MULTILINE)
    assert sorted(listed) == sorted(map(str, (project.path / "pages").iterdir()))
    assert len(listed) == 3


def test_check_fails_what_the_device_compiler_rejects_and_lists_warnings(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import numpy as np
        import pytest
        from kernels import double, stretched, unwritten

        X = np.ones((128, 64), np.float32)

        def test_clean():
            double(X)

        def test_rejected():
            stretched(X, [3, 3])

        def test_also_rejected():
            stretched(X, [3, 3])

        def test_warned():
            unwritten(X)

        def test_expects_its_fault():
            with pytest.raises(AssertionError):
                double(X, wrong=True)
        """
    )
    project.makeini("[pytest]\nnki_check = true\n")
    done = session(project, "--nki-target", "trn2")
    text = done.stdout.str()
    assert "NKI114" in text
    done.assert_outcomes(passed=3, failed=2, warnings=1)
    done.stdout.fnmatch_lines(["*KernelWarning: NKI*", "*= NKI findings =*", "  in *test_rejected and 1 more"])
    findings = text.partition("= NKI findings =")[2].partition("= short test summary")[0]  # which repeats some under CI
    assert findings.count(": NKI114") == 3  # the default once, two calls
    strict = session(project, "--nki-target", "trn2", "-W", "error::nki_lab.testing.KernelWarning", "-k", "warned")
    strict.assert_outcomes(failed=1)


TARGETS = """
import os
import subprocess
import sys
import numpy as np
import pytest
import nki_lab
from kernels import double

X = np.ones((128, 64), np.float32)

def facts():
    run = nki_lab.run(double, X)
    return run.target, run.program.options.precise

{marks}
class TestMarked:
    def test_class(self):
        assert facts() == ("trn3", {precise})

    @pytest.mark.nki(target="trn1", precise={other})
    def test_nearest(self):
        assert facts() == ("trn1", {other})

def test_plain():
    assert facts() == ({target!r}, {precise})

def test_process():
    assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] == {target!r}

def test_own(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert facts()[0] == "trn1"
"""


@pytest.mark.parametrize(
    ("ini", "variables", "arguments", "target", "precise"),
    [
        ("nki_target = trn1\nnki_precise = true", {"NKI_SIMULATOR": "1"}, [], "trn1", True),
        pytest.param("nki_target = trn1\nnki_precise = 0", {"NKI_SIMULATOR": "1", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn3"}, [], "trn3", False, marks=pytest.mark.slow),
        pytest.param("nki_precise = no", {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn3", "NKI_PRECISE_FP": "1"}, ["--nki-target=trn2"], "trn2", True, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_marker_comes_before_the_option_the_environment_and_the_project(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    ini: str,
    variables: dict[str, str],
    arguments: list[str],
    target: str,
    precise: bool,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    project.makeini(f"[pytest]\naddopts = --strict-markers\n{ini}\n")
    marks = '@pytest.mark.nki(target="trn3")'
    project.makepyfile(test_targets=TARGETS.format(marks=marks, target=target, precise=precise, other=not precise))
    session(project, *arguments).assert_outcomes(passed=5)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (pytest.mark.nki(target="trn9"), "NKI004 target is 'trn9'"),
        (pytest.mark.nki(traget="trn2"), "has no traget, only target and precise; did you mean target?"),
        (pytest.mark.nki("trn2"), r"takes keywords: nki\(target='trn2'\)"),
        (pytest.mark.nki(precise=3), "precise is 3, True or False is meant"),
    ],
)
def test_a_marker_that_is_not_understood_is_refused(
    request: pytest.FixtureRequest, mark: pytest.MarkDecorator, message: str
) -> None:
    request.node.add_marker(mark)
    with pytest.raises(pytest.UsageError, match=message):
        activation.marked(request.node)


@pytest.mark.slow
def test_a_refused_marker_ends_the_session_before_tests_run(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.nki(traget='trn2')\ndef test_it():\n    pass\n")
    done = session(project, "--nki-target=trn2")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "has no traget" in done.stderr.str() + done.stdout.str()
    assert "INTERNALERROR" not in done.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--nki-target=trn9"], {}, "NKI004 target is 'trn9', which is no target"),
        ([], {"NKI_SIMULATOR": "maybe"}, "NKI_SIMULATOR is 'maybe': 1 or 0 is meant"),
        (["--nki-target=trn2", "--nki-report=kernels.py"], {}, "--nki-report kernels.py: File exists"),
    ],
)
def test_a_wrong_option_is_said_in_a_line(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    variables: dict[str, str],
    said: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = session(project, *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {said}" in done.stderr.str()
    assert "Traceback" not in done.stderr.str()


@pytest.mark.slow
def test_a_real_package_stays_in_place_until_forced(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = project.mkpydir("sdk") / "nki"
    installed.mkdir()
    (installed / "__init__.py").write_text("REAL = True\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{installed.parent}")
    project.makepyfile(test_real="import nki\ndef test_it():\n    assert nki.REAL\n")
    monkeypatch.setenv("NKI_SIMULATOR", "1")  # means the simulator of the installed package too
    own = session(project)
    own.assert_outcomes(passed=1)
    own.stdout.fnmatch_lines(["nki-lab: NKI_SIMULATOR=1 is left to the installed nki*"])
    asked = session(project, "--nki-target=trn2")
    assert asked.ret == pytest.ExitCode.USAGE_ERROR
    assert "NKI015" in asked.stderr.str()
    assert "--nki-force simulates" in asked.stderr.str()
    session(project, "--nki-target=trn2", "--nki-force").assert_outcomes(failed=1)  # no REAL there


def test_files_of_tests_are_named_apart_and_safely() -> None:
    tests = [
        "t.py::test[a/b]",
        "t.py::test[a b]",
        "t.py::test[a:b]",
        "x" * 400,
        "y" + "x" * 400,
        "../..",
        "t.py::ü[\x00]",
    ]
    names = [file_name(test) for test in tests]
    assert len(set(names)) == len(tests)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name) or name.startswith("-") for name in names)
    assert all(len(name) <= 140 for name in names)
