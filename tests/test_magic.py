"""`%%nki` in a real IPython shell."""

from __future__ import annotations

import ast
import base64
import linecache
import math
import os
import threading
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nki.language as nl
import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import nki_lab
from nki_lab import rules
from nki_lab.call_records.recorder import recorder
from nki_lab.diagnostic import Diagnostic
from nki_lab.dialects import environment, launches
from nki_lab.dialects.environment import NOTEBOOK_VARIABLE
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.magic import NkiMagics, cell, checking, notebook_context
from nki_lab.magic.companion import companion
from nki_lab.magic.notebook_context import NotebookContext
from nki_lab.magic.runs import TABS
from nki_lab.query import one_kernel
from nki_lab.result import Run
from nki_lab.rules import SyntaxRule
from nki_lab.session import call as session_call
from nki_lab.source import SyntaxFacts
from nki_lab.widgets import ABOUT, MIME
from tests.shells import Notebook, ipython
from tests.wire.reader import read

ADD = """
@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out
"""
FAULTY = """
@nki.jit
def faulty(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    y = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.add)
    nl.store(out, y)
    return out
"""
# The check cannot know what the kernel reads from a file, a run can.
UNSEEN = "import json\n" + FAULTY.replace("(128, 8)", "(128, json.loads('8'))")


def steps(kept: dict[str, Any]) -> int:
    """The steps of a run as a notebook keeps it."""
    return int(read(zlib.decompress(base64.b64decode(kept["message"])))[0]["steps"])


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    with ipython(tmp_path_factory.mktemp("ipython")) as started:
        yield started


@pytest.fixture
def notebook(shell: InteractiveShell) -> Notebook:
    """A notebook whose first cell has imported what the others use."""
    shell.reset(new_session=True)
    recorder.forget()
    made = Notebook(shell)
    made.good(
        "import numpy as np, nki, nki.isa as nisa, nki.language as nl, nki_lab\nx = np.ones((128, 16), np.float32)"
    )
    return made


# -- kernels and calls -------------------------------------------------------------------------------------------------


def test_a_kernel_and_its_call_in_one_cell_give_result_and_drawing(notebook: Notebook) -> None:
    done = notebook.good(f"%%nki --target trn2\n{ADD}\nadd(x, x)")
    assert (done.value == 2).all()
    (drawn,) = done.drawn
    assert {"text/plain", "text/html", "image/png", MIME} <= set(drawn)
    assert drawn["text/plain"].startswith("add on trn2: ")


def test_a_kernel_of_one_cell_runs_in_another(notebook: Notebook) -> None:
    first = notebook.good(f"%%nki\n{ADD}")
    assert first.text.startswith("No kernel was called. The cell defines add. Call it, or give shapes")
    assert (notebook.good("%%nki\nadd(x, x)").value == 2).all()
    assert (notebook.good("add(x, x)").value == 2).all()


def test_an_ordinary_cell_says_nothing_of_kernels(notebook: Notebook) -> None:
    done = notebook.good("%%nki\ndef double(x):\n    return 2 * x\n\ndouble(21)")
    assert done.value == 42
    assert [item["text/plain"] for item in done.shown] == []


def test_a_kernel_of_an_edited_module_is_the_edited_one(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = "import nki, nki.language as nl\n\n@nki.jit\ndef scaled(a):\n    out = nl.ndarray(a.shape, dtype=a.dtype,"
    text += " buffer=nl.shared_hbm)\n    nl.store(out, nl.multiply(nl.load(a), {}))\n    return out\n"
    file = tmp_path / "edited_kernels.py"
    file.write_text(text.format("2.0"), encoding="utf-8")
    notebook.good("%load_ext autoreload")
    notebook.good("%autoreload 2")
    notebook.good("from edited_kernels import scaled")
    assert notebook.good("%%nki --no-view\nscaled(x)[0, 0]").value == 2
    file.write_text(text.format("3.0") + "\n", encoding="utf-8")
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 2_000_000_000))
    assert notebook.good("%%nki --no-view\nscaled(x)[0, 0]").value == 3
    notebook.good("%autoreload 0")


def test_every_way_to_call_a_kernel_is_a_run(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good(
        "%%nki --target trn2 --no-view\n"
        "add(x, x)\n"
        "nki.simulate(add)(x[:64], x[:64])\n"
        "nki_lab.profile(add, nki_lab.spec((32, 16), 'float32'), nki_lab.spec((32, 16), 'float32'), target='trn3')\n"
        "nki_lab.run(add, x[:8], x[:8])\n"
        "done = threads = None\n"
    )
    (lines,) = done.shown
    assert [line.split(" · ")[0] for line in lines["text/plain"].splitlines()] == [
        "add  trn2", "add  trn2", "add  trn3", "add  trn2",
    ]  # fmt: skip
    assert "profiled in" in lines["text/plain"]


def test_kernels_of_beta_1_are_runs(notebook: Notebook) -> None:
    done = notebook.good(
        "%%nki --target trn1\nfrom neuronxcc import nki as old\nimport neuronxcc.nki.language as ol\n\n@old.jit\n"
        "def double(a):\n    out = ol.ndarray(a.shape, dtype=a.dtype, buffer=ol.shared_hbm)\n"
        "    ol.store(out, ol.load(a) * 2)\n    return out\n\nold.simulate_kernel(double, x)[0, 0]"
    )
    assert done.value == 2
    assert [item["text/plain"].splitlines()[0].partition(":")[0] for item in done.drawn] == ["double on trn1"]


def test_calls_in_threads_of_the_cell_are_its_runs(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good(
        "%%nki --no-view\nimport threading\nts = [threading.Thread(target=add, args=(x, x)) for _ in range(3)]\n"
        "for t in ts:\n    t.start()\nfor t in ts:\n    t.join()\n"
    )
    assert "3 times" in done.text


def test_every_run_of_a_cell_is_drawn_and_equal_ones_in_a_row_once(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki --target trn2\na = add(x[:8], x[:8])\nfor _ in range(5):\n    b = add(x, x)\n")
    (drawn,) = done.shown
    assert drawn["text/plain"].startswith("add  trn2 · 4 instructions · ")
    assert drawn["text/html"].count("<details>") == 1
    kept = drawn[MIME]
    assert [steps(item) for item in (*kept["earlier"], kept)] == [4, 4]
    assert [item["times"] for item in drawn[ABOUT]] == [1, 5]
    assert {item["kernel"] for item in drawn[ABOUT]} == {"add"}
    assert drawn[ABOUT][0]["makespan"] < drawn[ABOUT][1]["makespan"]


def test_a_cells_value_is_drawn_with_the_runs_before_it_and_alone_in_later_cells(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki\nadd(x[:8], x[:8])\nrun = nki_lab.run(add, x, x)\nrun")
    assert type(done.value) is Run
    assert done.drawn == []  # this shell prints values: IPython has drawn it
    assert done.printed.count("add  trn3 · 4 instructions") == 1
    assert "add on trn3: " in done.printed
    assert notebook.good("run").printed.count("add  trn3") == 0
    (again,) = notebook.good("from IPython.display import display\ndisplay(run)").shown
    assert "earlier" not in again[MIME]


def test_of_very_many_runs_the_latest_are_drawn_and_the_others_have_a_line(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki\nfor n in range(1, 17):\n    add(x[: 8 * n], x[: 8 * n])\n")
    lines, drawn = done.shown
    assert len(drawn[MIME]["earlier"]) == TABS - 1
    assert len(lines["text/plain"].splitlines()) == 16 - TABS


def test_what_earlier_runs_may_add_to_a_notebook_has_the_limit_of_one_run(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.good(f"%%nki\n{ADD}")
    (drawn,) = notebook.good("%%nki\nfor n in (1, 2, 3, 4):\n    add(x[: 8 * n], x[: 8 * n])\n").shown
    sizes = [len(item["message"]) for item in (*drawn[MIME]["earlier"], drawn[MIME])]
    monkeypatch.setenv(NOTEBOOK_VARIABLE, str(max(sizes) * 2))
    (drawn,) = notebook.good("%%nki\nfor n in (1, 2, 3, 4):\n    add(x[: 8 * n], x[: 8 * n])\n").shown
    assert len(drawn[MIME]["earlier"]) == len(drawn[ABOUT]) - 1 == 2
    assert drawn["text/html"].count("<details>") == 3


def test_a_run_without_times_keeps_no_other_from_being_drawn(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}{FAULTY}")
    done = notebook.run("%%nki --no-check\nadd(x, x)\nadd(x[:8], x[:8])\nfaulty(x)\n")
    assert done.error is not None
    drawn = [item for shown in done.drawn for item in (*shown[MIME].get("earlier", ()), shown[MIME])]
    assert len(drawn) >= 2


def test_a_run_that_is_the_cells_value_is_drawn_once(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki\nnki_lab.run(add, x, x)")
    assert type(done.value) is Run
    assert done.drawn == []  # this shell prints values: IPython has drawn it
    assert "add on trn3: " in done.printed
    assert notebook.good("%%nki\nrun = nki_lab.run(add, x, x)\nrun").drawn == []
    assert len(notebook.good("%%nki\nnki_lab.run(add, x, x);").drawn) == 1


def test_a_semicolon_keeps_the_value_back(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki --no-view\nadd(x, x);")
    assert done.value is None
    assert done.printed == ""


def test_ipythons_own_syntax_works_in_the_cell(notebook: Notebook) -> None:
    done = notebook.good("%%nki\nkept = %config InteractiveShell.ast_node_interactivity\n!echo from the shell\nkept")
    assert done.value == "last_expr"
    assert "from the shell" in done.printed


def test_no_run_prints_its_findings_to_the_error_stream(notebook: Notebook, capfd: pytest.CaptureFixture[str]) -> None:
    unwritten = (
        "@nki.jit\ndef unwritten(a):\n    return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n\n"
        "unwritten(x);"
    )
    done = notebook.good(f"%%nki\n{unwritten}")
    assert "NKI" in done.text
    assert done.complained == ""
    assert capfd.readouterr().err == ""


# -- source lines ------------------------------------------------------------------------------------------------------


def test_recordings_name_cells_by_their_prompts(notebook: Notebook) -> None:
    helper = notebook.good("def doubled(tile):\n    return nl.multiply(tile, 2.0)")
    kernel = ADD.replace("nl.load(a)", "doubled(nl.load(a))").replace("def add", "def add_doubled")
    done = notebook.good(f"%%nki\n{kernel}\nlast = nki_lab.run(add_doubled, x, x, target='trn2')")
    recording = notebook.shell.user_ns["last"].recording
    assert set(recording.texts("sources", "path")) >= {f"Cell In[{helper.number}]", f"Cell In[{done.number}]"}
    assert not any("nki-cell" in path or "ipykernel" in path for path in recording.texts("sources", "path"))


def test_findings_as_text_name_the_cell_by_its_prompt(notebook: Notebook) -> None:
    made = "tile = nl.ndarray((256, 4), nl.float32, buffer=nl.sbuf)\n    nisa.memset(tile, 0.0)"
    done = notebook.run(f"%%nki\n@nki.jit\ndef tall(a):\n    {made}\n    return a\ntall(x)")
    assert "nki-cell" not in done.text
    assert f"Cell In[{done.number}]:4" in done.text
    assert f"--> Cell In[{done.number}]:4" in str(done.error)  # the exception too, as an `except` prints it
    assert "nki-cell" not in str(done.error)


def test_lines_count_from_the_magics_own(notebook: Notebook) -> None:
    done = notebook.run("%%nki\nx = 1\ny = x / 0")
    assert isinstance(done.error, ZeroDivisionError)
    assert f"Cell In[{done.number}], line 3" in done.printed
    assert notebook.shell.execution_count == done.number + 1
    assert "nki_lab" not in done.printed
    assert "run_cell_magic" not in done.printed


def test_the_source_of_a_kernel_is_that_of_the_cell(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    assert notebook.good("import inspect; inspect.getsource(add)").value == ADD.lstrip()
    assert notebook.good("inspect.getsourcelines(add)[1]").value == 3  # below the magic's line and an empty one


def test_cells_with_one_number_have_names_of_their_own(notebook: Notebook) -> None:
    for name in ("one", "two"):
        notebook.shell.run_cell(f"%%nki\n# {name}\ndef {name}():\n    return '{name}'\n", store_history=False)
    sources = notebook.good("import inspect; inspect.getsource(one), inspect.getsource(two)").value
    assert sources == ("def one():\n    return 'one'\n", "def two():\n    return 'two'\n")


def test_a_cell_that_runs_again_unchanged_keeps_its_name(notebook: Notebook) -> None:
    names = set()
    for _ in range(2):
        notebook.shell.run_cell("%%nki\ndef same():\n    pass\n", store_history=False)
        names.add(notebook.shell.user_ns["same"].__code__.co_filename)
    assert len(names) == 1
    assert linecache.getline(names.pop(), 2) == "def same():\n"


def test_a_syntax_error_is_shown_as_ipython_shows_it(notebook: Notebook) -> None:
    done = notebook.run("%%nki\ndef f(:\n    pass")
    assert type(done.error).__name__ == "SyntaxError"
    assert done.printed.strip().splitlines() == [
        f"Cell In[{done.number}], line 2", "    def f(:", "          ^", "SyntaxError: invalid syntax",
    ]  # fmt: skip


@pytest.mark.parametrize("body", ["await sleep(0)", "x = 1\nasync with x:\n    pass", "[i async for i in x]"])
def test_a_cell_that_awaits_is_told_where_it_runs(notebook: Notebook, body: str) -> None:
    done = notebook.run(f"%%nki\nran = True\n{body}")
    assert "SyntaxError" in done.printed and "without %%nki" in done.printed
    assert "nki_lab/magic" not in done.printed
    assert "ran" not in notebook.shell.user_ns


# -- findings ----------------------------------------------------------------------------------------------------------


def test_findings_stand_under_a_cell_that_is_not_run(notebook: Notebook) -> None:
    done = notebook.run(f"%%nki --target trn2\n{FAULTY}\nran = True\nfaulty(x)")
    assert "ran" not in notebook.shell.user_ns
    assert done.printed.strip().splitlines()[-1] == "Not run: 2 errors"
    (shown,) = done.shown
    assert shown["text/plain"].startswith("Not run: 2 errors  (checked in ")
    assert "tensor_tensor(dst=y, data1=x, data2=x" in shown["text/plain"]
    assert "line 8: " in shown["text/html"]
    assert isinstance(done.error, nki_lab.NkiError)


def test_shapes_from_the_notebook_are_known_to_the_check(notebook: Notebook) -> None:
    notebook.good("width = 8\nkind = np.float32")
    source = FAULTY.replace("(128, 8)", "(128, width)").replace("a.dtype, buffer=nl.sbuf", "kind, buffer=nl.sbuf")
    done = notebook.run(f"%%nki --check-only\n{source}\nfaulty(x)")
    assert "2 errors" in done.text
    notebook.good("width = 16")
    assert "error" not in notebook.good(f"%%nki --check-only\n{source}\nfaulty(x)").text


def test_a_check_alone_runs_nothing(notebook: Notebook) -> None:
    done = notebook.good(f"%%nki --check-only\n{ADD}\nran = add(x, x)")
    assert "ran" not in notebook.shell.user_ns
    assert "add" not in notebook.shell.user_ns
    assert done.value is None
    assert done.text.startswith("Nothing found  (checked in ")


def test_without_a_check_the_run_finds_the_fault(notebook: Notebook) -> None:
    done = notebook.run(f"%%nki --no-check --no-view\n{FAULTY}\nran = True\nfaulty(x)")
    assert notebook.shell.user_ns["ran"] is True
    assert "stopped by NKI203" in done.text


def test_a_fault_while_running_is_a_finding_and_names_the_call(notebook: Notebook) -> None:
    done = notebook.run(f"%%nki --target trn2\n{UNSEEN}\n\nfaulty(x)")
    headline, call = done.printed.strip().splitlines()
    assert headline.startswith("NKI203 tensor_tensor: ")
    assert headline.endswith("(line 9)")
    assert call == "called at line 14"
    findings, drawn = done.shown
    assert findings["text/plain"].startswith("1 error\n\nerror: NKI203")
    assert "up to the fault" in drawn["text/html"]


@pytest.mark.parametrize("checked", [True, False])
def test_a_cell_is_parsed_and_judged_once(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, *, checked: bool
) -> None:
    """Check, run and the run's findings share one tree and one pass of the rules."""
    parses: list[str] = []
    passes: list[str] = []
    parse = ast.parse

    def counted(text: Any, *args: Any, **options: Any) -> ast.AST:
        parses.extend(["once"] if "def counted_kernel" in str(text) else [])
        return parse(text, *args, **options)

    def judged(facts: SyntaxFacts) -> Iterator[Diagnostic]:
        passes.append(facts.file)
        yield from ()

    monkeypatch.setattr(ast, "parse", counted)
    monkeypatch.setattr(rules, "SYNTAX_RULES", (*rules.SYNTAX_RULES, SyntaxRule(code="NKI103", check=judged)))
    line = "%%nki --no-view" if checked else "%%nki --no-view --no-check"
    done = notebook.run(f"{line}\n{ADD.replace('add(a', 'counted_kernel(a')}\ncounted_kernel(x, x)")
    assert isinstance(done.value, np.ndarray)
    assert len(parses) == len(passes) == 1


def test_what_the_check_has_told_the_run_does_not_tell_again(notebook: Notebook) -> None:
    source = ADD.replace("nl.store(out", "scratch = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)\n"
                         "    nisa.tensor_copy(dst=nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf), src=scratch)\n"
                         "    nl.store(out")  # fmt: skip
    done = notebook.good(f"%%nki --no-view\n{source}\nadd(x, x);")
    assert done.text.count("NKI301") == 2  # the finding, and where to read on
    again = notebook.good("%%nki --no-view\nadd(x, x);")  # its kernel stands elsewhere: only the run can tell
    assert again.text.count("NKI301") == 2


SCRATCH = """
@nki.jit
def scratch(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf), src=tile)
    nl.store(out, nl.load(a))
    return out
"""


@pytest.mark.parametrize("call", ["scratch(x);", "int(str(x)); scratch(x)", "", "_ = nki_lab.compile(scratch, x)"])
def test_a_program_is_judged_once_by_the_run_or_by_the_check(
    call: str, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    monkeypatch.setattr(companion, "call", lambda function, *given: function(*given))  # what another process judges
    for module in (one_kernel, session_call):
        original = module.check_program
        monkeypatch.setattr(module, "check_program", lambda facts, original=original: (
            judged.append(facts.program.name), original(facts)
        )[1])  # fmt: skip
    source = SCRATCH if call else SCRATCH.replace("scratch(a)", "scratch(a: nt.tensor[128, 16])")
    done = notebook.run(f"%%nki --no-view\nimport nki.typing as nt\n{source}\n{call}")
    assert isinstance(done.error, ValueError) == ("int" in call)
    assert done.text.count("NKI301") == 2
    assert judged.count("scratch") == 1 + ("compile" in call)


def test_a_check_that_crashes_keeps_the_notebook_and_its_cell_running(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.good("import numpy as np\nx = np.ones((8, 4), np.float32)")
    cell_body = f"%%nki --no-view\n{ADD}\nadd(x, x);"
    asked: list[object] = []
    call = companion.call
    monkeypatch.setattr(companion, "call", lambda function, *given: (asked.append(given), call(function, *given))[1])
    monkeypatch.setattr(checking, "answer", math.floor)  # raises, which ends the process beside the notebook's
    for _ in range(2):
        done = notebook.good(cell_body)
        assert "NKI901 evaluating this file failed, its process ended with status 1" in done.text
        assert "add  trn3" in done.text  # it ran
    assert len(asked) == 1  # the same text does not crash it again
    monkeypatch.undo()
    assert "NKI901" not in notebook.good(cell_body.replace("add(x, x);", "add(x, x); 1")).text


def test_strict_refuses_what_the_device_compiler_would_reject(notebook: Notebook) -> None:
    source = ADD.replace("nl.store", "same = lambda t: t\n    nl.store")
    plain = notebook.good(f"%%nki --no-view\n{source}\nadd(x, x)")
    assert "error: NKI1" in plain.text
    assert (plain.value == 2).all()
    checked = notebook.run(f"%%nki --no-view --strict\n{source}\nadd(x, x)")
    assert checked.printed.strip() == "Not run: 1 error"
    refused = notebook.run(f"%%nki --no-view --strict --no-check\n{source}\nadd(x, x)")
    assert isinstance(refused.error, nki_lab.NkiError)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.said += data


def test_markup_in_the_source_is_text_under_the_cell(notebook: Notebook) -> None:
    evil = "<img src=x onerror=alert(1)></pre><script>alert(2)</script>"
    source = FAULTY.replace("op=nl.add)", f"op=nl.add, name={evil!r})")
    done = notebook.run(f"%%nki\n{source}\nfaulty(x)")
    page = Tags(done.html)
    assert "script" not in page.found
    assert "img" not in page.found
    assert evil in page.said


def test_what_an_earlier_cell_defines_is_not_missing(notebook: Notebook) -> None:
    notebook.good("def helper(t):\n    return t\n\nclass Config:\n    width = 16\n\nconfig = Config()")
    source = ADD.replace("nl.load(a)", "helper(nl.load(a))").replace(
        "return out", "assert config.width\n    return out"
    )
    done = notebook.good(f"%%nki\n{source}\nadd(x, x)[0, 0]")
    assert done.value == 2
    assert "error" not in done.text


def test_functions_of_other_cells_are_followed(notebook: Notebook) -> None:
    notebook.good("import nki.isa as nisa\nWIDTH = 8")
    notebook.good("class Half:\n    def of(self, t):\n        return t[:, 0:WIDTH]\n\ndef halve(t):\n"
                  "    nisa.tensor_copy(dst=t, src=Half().of(t))\n    return t")  # fmt: skip
    source = ADD.replace("nl.load(a)", "halve(nl.load(a))")
    found = check_of(notebook, f"{source}\nadd(x, x)")
    assert [(item.code, item.outcome) for item in found if item.severity == "error"] == [("NKI203", "fault")]


def check_of(notebook: Notebook, body: str) -> list[Diagnostic]:
    """What the check before a run finds in a cell."""
    found, _ = cell.check(cell.read(notebook.shell, "", body), notebook.shell.user_ns, arch_of("trn2"))
    return found


def test_names_of_the_notebook_are_known_by_what_they_are() -> None:
    tree = ast.parse("a + b + c + d + e + f + g + np.x + np.y\nimport os\nos.sep + json")
    space = {
        "a": np.ones((4, 3), np.float32), "b": 7, "c": "it's", "d": float("inf"), "e": object(), "f": nl.bfloat16,
        "g": nki_lab.spec((2, 3), "bfloat16"), "np": np, "os": os, "unused": np.ones(3),
    }  # fmt: skip
    neighbours = NotebookContext(space, cell.meanings)
    *statements, last = cell.meanings(tree, space, neighbours)
    assert set(statements) == {"b = 7", 'c = "it\'s"', "from nki.language import bfloat16 as f", "import numpy as np"}
    assert set(last.removeprefix("from _nki_lab_notebook import ").split(", ")) == {"a", "d", "e", "g"}
    assert neighbours.arrays == {"a": nki_lab.spec((4, 3), "float32"), "g": space["g"]}


# -- options -----------------------------------------------------------------------------------------------------------


def test_the_target_of_a_cell_is_that_of_its_calls_only(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.TARGET_VARIABLE, "trn3")
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki --target trn1 --no-view\nadd(x, x)\nnki_lab.run(add, x, x, target='trn2');")
    assert [line.split(" · ")[0] for line in done.text.splitlines()] == ["add  trn1", "add  trn2"]
    assert environment.resolve_target().target == "trn3"


def test_an_unknown_target_is_a_coded_error_without_a_traceback(notebook: Notebook) -> None:
    done = notebook.run("%%nki --target trn7\nran_with = 7")
    assert done.printed.strip().startswith("NKI004 --target is 'trn7'")
    assert len(done.printed.strip().splitlines()) == 1
    assert "ran_with" not in notebook.shell.user_ns


def test_an_unknown_option_is_a_usage_error(notebook: Notebook) -> None:
    done = notebook.run("%%nki --tarlet trn2\npass")
    assert done.printed.strip().startswith("NKI002 %%nki has no option --tarlet")


def test_every_option_says_what_it_does() -> None:
    for action in NkiMagics.nki.parser._actions:
        assert action.help
        assert action.option_strings[0] in (NkiMagics.nki.__doc__ or "")


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("%%nki --ta", ["--target", "--targets"]),
        ("%%nki --target trn2 --ch", ["--check-only", "--check-against"]),
        ("%%nki --target ", ["trn1", "trn1n", "inf2", "gen2", "trn2", "gen3", "trn3", "gen4"]),
        ("%%nki --target trn1", ["trn1", "trn1n"]),
        ("%%nki --inputs r", ["randn(seed=0)"]),
        ("%%nki --save ", []),
        ("%%timeit --ta", []),
    ],
)
def test_the_first_line_completes(line: str, candidates: list[str]) -> None:
    assert notebook_context.candidates(line, NkiMagics.nki.parser) == candidates


def test_ipythons_completer_knows_the_options(notebook: Notebook) -> None:
    def completed(line: str) -> set[str]:
        with provisionalcompleter():
            return {item.text for item in notebook.shell.Completer.completions(line, len(line))}

    assert {"--no-check", "--no-view"} <= completed("%%nki --no-")
    assert "trn2" in completed("%%nki --target trn")
    assert "add" in completed("%%nki --no-view\nnl.ad")


def test_the_last_run_is_saved(notebook: Notebook, tmp_path: Path) -> None:
    place = tmp_path / "add.nkirec"
    notebook.good(f"%%nki --target trn2 --no-view --save {place}\n{ADD}\nadd(x[:4], x[:4])\nadd(x, x);")
    opened = nki_lab.open(place)
    assert opened.name == "add"
    assert opened.summary == nki_lab.run(notebook.shell.user_ns["add"], *[np.ones((128, 16), np.float32)] * 2,
                                         target="trn2").summary  # fmt: skip


def test_shapes_are_profiled_and_compute_nothing(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    done = notebook.good("%%nki\ns = nki_lab.spec((128, 512), 'bfloat16')\nadd(s, s)")
    assert done.value is None
    assert len(done.drawn) == 1


def test_inputs_give_shapes_values(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    call = "s = nki_lab.spec((128, 64), 'bfloat16')\nadd(s, s)"
    drawn = notebook.good(f"%%nki --no-view --inputs randn(seed=3)\n{call}").value
    again = notebook.good(f"%%nki --no-view --inputs randn(seed=3)\n{call}").value
    assert str(drawn.dtype) == "bfloat16"
    assert (drawn == again).all()
    assert 1 < float(drawn.astype(np.float32).std()) < 2
    assert (notebook.good(f"%%nki --no-view --inputs ones\n{call}").value == 2).all()


@pytest.mark.parametrize("kind", ["rand(seed=0)", "randn(seed=-1)", "randn(3, 4)", "randn(", "randn(size=3)", "1"])
def test_unknown_inputs_are_a_coded_error(notebook: Notebook, kind: str) -> None:
    done = notebook.run(f"%%nki --inputs '{kind}'\npass")
    assert done.printed.strip().startswith("NKI012 inputs are ")


# -- errors and interrupts ---------------------------------------------------------------------------------------------


def test_an_interrupted_kernel_leaves_everything_usable(notebook: Notebook) -> None:
    source = ADD.replace("    nl.store", "    if stop:\n        raise KeyboardInterrupt\n    nl.store")
    notebook.good("stop = True")
    done = notebook.run(f"%%nki --target trn1\n{source}\nadd(x, x)")
    assert isinstance(done.error, KeyboardInterrupt)
    assert "cancelled" in done.text
    assert "nki_lab" not in done.printed
    assert local.builder is None
    assert launches.current_observer() is None
    assert environment._cells == [environment._Cell()]
    notebook.good("stop = False")
    assert notebook.good("%%nki\nadd(x, x)[0, 0]").value == 2


def test_a_kernel_that_an_except_clause_follows_may_fail(notebook: Notebook) -> None:
    done = notebook.good(
        f"%%nki --no-view\n{UNSEEN}\ntry:\n    faulty(x)\nexcept nki_lab.NkiError as error:\n"
        "    code = error.diagnostics[0].code\ncode"
    )
    assert done.value == "NKI203"


def test_threads_outside_of_a_cell_do_not_draw(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}")
    found: list[Any] = []
    add = notebook.shell.user_ns["add"]
    thread = threading.Thread(
        target=lambda: found.append(add(np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)))
    )
    thread.start()
    thread.join()
    assert (found[0] == 2).all()


def test_loading_where_nki_is_installed_says_so(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nki_lab import magic
    from nki_lab.diagnostic import diagnose, error_of

    def refuse() -> None:
        raise error_of(diagnose("NKI015", "a package called nki is installed: elsewhere"))

    monkeypatch.setattr(magic, "activate", refuse)
    magic.load(shell)
    assert capsys.readouterr().out.startswith("NKI015 a package called nki is installed")


def test_a_cell_is_checked_after_a_traceback_was_shown(notebook: Notebook) -> None:
    # What IPython explains tracebacks with leaves attributes at nodes that Python's parser shares between all trees.
    for _ in range(2):
        notebook.run("%%nki\nlist_of = [1]\nlist_of[1] = not -list_of[2] < 3 and 1 + list_of[0]")
        source = ADD.replace("    out =", "    assert not -a.shape[0] > 1 and 1 + a.shape[1] < 99\n    out =")
        assert (notebook.good(f"%%nki --no-view\n{source}\nadd(x, x)").value == 2).all()


# -- calls of earlier cells --------------------------------------------------------------------------------------------


def test_a_kernel_is_checked_with_the_call_of_an_earlier_cell(notebook: Notebook) -> None:
    notebook.good(ADD)
    notebook.good("y = add(x, x)")
    done = notebook.good(f"%%nki\n{ADD.replace('nl.load(b)', 'nl.load(b[0:64])')}")
    assert "with the arguments of a recorded call: add(a=float32[128,16], b=float32[128,16]), from In[" in done.text
    assert "1 error" in done.text
    assert notebook.good("add.__name__").value == "add"  # the cell was run all the same


def test_a_cell_that_calls_its_kernel_needs_no_earlier_call(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}\nadd(x, x)")
    done = notebook.good(f"%%nki --no-view\n{ADD.replace('nl.load(b)', 'nl.load(b[0:64])')}\nadd(x[:64], x[:64]).shape")
    assert done.value == (64, 16)
    assert "recorded call" not in done.text


def test_a_call_that_does_not_fit_the_kernel_any_more_is_ignored(notebook: Notebook) -> None:
    notebook.good(f"%%nki\n{ADD}\nadd(x, x)")
    done = notebook.good(f"%%nki\n{ADD.replace('(a, b)', '(a, b, c)').replace('nl.load(b)', 'nl.load(b[0:64])')}")
    assert "error" not in done.text


def test_calls_in_cells_are_written_nowhere(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.nki-lab]\nrecord-signatures = true\n")
    monkeypatch.chdir(tmp_path)
    notebook.good(f"%%nki\n{ADD}\nadd(x, x)")
    assert recorder.calls("add", on_disk=False)
    assert not (tmp_path / ".nki-lab").exists()


# -- comparing with a reference ----------------------------------------------------------------------------------------


def test_results_are_compared_with_an_array_or_a_function_of_the_notebook(notebook: Notebook) -> None:
    notebook.good("wanted = x + x\ndef reference(a, b): return a + b")
    for expression in ("wanted", "reference", "'[x + x]'", "'lambda a, b: a + b'"):
        done = notebook.good(f"%%nki --check-against {expression}\n{ADD}\nadd(x, x)")
        assert "add agrees with" in done.text
        assert "largest error" in done.text
        assert len(done.drawn) == 1


def test_a_difference_is_a_table_with_its_place_and_cause(notebook: Notebook) -> None:
    notebook.good("wanted = x + x\nwanted[3, 5] += 0.5")
    done = notebook.good(f"%%nki --no-view --check-against wanted\n{ADD}\nadd(x, x)")
    assert "add differs from wanted" in done.text
    row = next(line for line in done.text.splitlines() if line.strip().startswith("result"))
    assert row.split()[1:5] == ["0.5", "[3,", "5]", "2"]
    assert "1 of 2,048" in row
    assert "rounding is not the cause" in done.text
    assert "<th" in done.html


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("missing", "NameError: name 'missing' is not defined"),
        ("'1 +'", "SyntaxError"),
        ("'[x, x]'", "AssertionError: add has 1 outputs, the reference 2"),
        ("'x[:3]'", "ValueError: shapes differ"),
        ("'lambda: 1'", "TypeError"),
        ("'\"<b>\"'", "not compared"),
    ],
)
def test_a_reference_that_cannot_be_compared_is_said_and_the_run_drawn(
    notebook: Notebook, expression: str, reason: str
) -> None:
    done = notebook.good(f"%%nki --check-against {expression}\n{ADD}\nadd(x, x)")
    assert reason in done.text
    assert "<b>" not in done.html.split("not compared")[-1].split("</p>")[0]
    assert len(done.drawn) == 1
    assert (done.value == 2).all()


def test_a_cell_without_results_is_not_compared(notebook: Notebook) -> None:
    assert "no kernel was called" in notebook.good(f"%%nki --check-against x\n{ADD}").text
    profiled = notebook.good(f"%%nki --check-against x\n{ADD}\nadd(nki_lab.spec((128, 16), 'float32'), x)")
    assert "add has no results" in profiled.text


@pytest.mark.parametrize("mark", ["'", '"'])
def test_quotes_hold_the_value_of_an_option_together(notebook: Notebook, mark: str, tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    options = f"--inputs {mark}randn(seed=0){mark} --target {mark}trn2{mark} --save {mark}{folder}{mark} --no-view"
    notebook.good(f"%%nki {options}\n{ADD}\nresult = add(*[nki_lab.spec((128, 8), np.float32)] * 2)")
    assert folder.is_dir()
    assert notebook.shell.user_ns["result"].any()


@pytest.mark.parametrize(
    ("line", "says"), [("--save ''", "--save is empty"), ("--target 'trn2", "No closing quotation")]
)
def test_a_line_that_is_not_understood_is_a_coded_error(notebook: Notebook, line: str, says: str) -> None:
    done = notebook.run(f"%%nki {line}\nx = 1")
    assert "NKI002" in done.printed and says in done.printed
    assert "Traceback" not in done.printed


def test_a_line_that_begins_with_the_module_is_python(notebook: Notebook) -> None:
    """IPython takes a word at the beginning of a cell for a magic of a line, where there is one."""
    manager = notebook.shell.magics_manager
    del manager.magics["cell"]["nki"]
    manager.register_lazy("nki", "nki_lab")
    nki_lab.load_ipython_extension(notebook.shell)
    for text in ("nki", "nki;", "nki is None", "%%nki\nnki"):
        notebook.good(text)


def test_an_unknown_option_has_a_near_miss(notebook: Notebook) -> None:
    done = notebook.run("%%nki --traget trn2\nx = 1")
    assert "NKI002 %%nki has no option --traget; did you mean --target" in done.printed
    assert "Traceback" not in done.printed


# -- comparisons -------------------------------------------------------------------------------------------------------

TILED = """
TILE = 512

@nki.jit
def tiled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(a.shape[1] // TILE):
        t = nl.ndarray((128, TILE), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a[:, i * TILE:(i + 1) * TILE])
        nisa.dma_copy(dst=out[:, i * TILE:(i + 1) * TILE], src=t)
    return out

_ = tiled(nki_lab.spec((128, 2048), "float32"))
"""


def test_a_cell_is_compared_with_the_run_before_its_edit(notebook: Notebook) -> None:
    first = notebook.good(f"%%nki --target trn2 --no-view --compare last\n{TILED}")
    assert "not compared, this is the first run of tiled in this session" in first.text
    done = notebook.good(f"%%nki --target trn2 --no-view --compare last\n{TILED.replace('512', '256')}")
    assert "slower (+" in done.text
    assert "Edited: line 3 `TILE = 512` → `TILE = 256`." in done.text
    assert "<table" in done.html
    again = notebook.good(f"%%nki --target trn2 --no-view --compare last\n{TILED.replace('512', '256')}")
    assert "No difference: both take" in again.text


def test_two_calls_in_a_cell_are_compared(notebook: Notebook) -> None:
    twice = TILED + '_ = tiled(nki_lab.spec((128, 4096), "float32"))\n'
    done = notebook.good(f"%%nki --target trn2 --no-view --compare last\n{twice}")
    assert "slower (+" in done.text
    assert "Edited" not in done.text


def test_a_cell_is_compared_with_a_run_by_name_and_with_a_saved_one(notebook: Notebook, tmp_path: Path) -> None:
    notebook.good(f"%%nki --target trn2 --no-view --save {tmp_path / 'a.nkirec'}\n{TILED}")
    saved = notebook.good(f"%%nki --target trn1 --no-view --compare {tmp_path / 'a.nkirec'}\n{TILED}")
    assert "Targets: trn2 and trn1." in saved.text
    notebook.good(f"before = nki_lab.open({str(tmp_path / 'a.nkirec')!r})")
    assert "No difference" in notebook.good(f"%%nki --target trn2 --no-view --compare before\n{TILED}").text


@pytest.mark.parametrize(
    ("option", "body", "says"),
    [
        ("--compare last", "x.sum()", "no kernel was called"),
        ("--compare nothing_here", TILED, "it is no run of the notebook, and NKI018"),
        ("--targets trn2", "x.sum()", "no kernel was called"),
        ("--targets ,", TILED, "it names no target"),
    ],
)
def test_what_cannot_be_compared_is_said_below_the_cell(option: str, body: str, says: str, notebook: Notebook) -> None:
    assert says in notebook.good(f"%%nki --target trn2 --no-view {option}\n{body}").text


def test_an_edited_module_is_compared_with_what_it_was(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "tiled_kernels.py"
    text = "import nki, nki.isa as nisa, nki.language as nl\n" + TILED[: TILED.index("_ = ")]
    call = '%%nki --target trn2 --no-view --compare last\n_ = tiled(nki_lab.spec((128, 2048), "float32"))'
    file.write_text(text, encoding="utf-8")
    notebook.good("%load_ext autoreload")
    notebook.good("%autoreload 2")
    notebook.good("from tiled_kernels import tiled")
    notebook.good(call)
    file.write_text(text.replace("512", "256") + "\n", encoding="utf-8")
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 2_000_000_000))
    assert "`TILE = 512` → `TILE = 256`" in notebook.good(call).text


def test_a_call_is_timed_on_several_targets(notebook: Notebook) -> None:
    done = notebook.good(f"%%nki --target trn2 --no-view --targets trn1,trn2,trn3,trn9\n{TILED}")
    table = done.shown[-1]["text/plain"].splitlines()
    assert table[0] == "tiled on trn1, trn2, trn3, trn9, timed"
    assert [line.split()[0] for line in table[2:]] == ["trn1", "trn2", "trn3", "trn9"]
    assert all(" µs" in line for line in table[2:5])
    assert "NKI004" in table[5]


def test_a_target_that_refuses_the_call_has_the_reason_in_its_row(notebook: Notebook) -> None:
    body = ADD + "\n_ = add[2](x, x)\n"
    done = notebook.good(f"%%nki --target trn2 --no-view --targets trn1,trn2\n{body}")
    table = done.shown[-1]["text/plain"].splitlines()
    assert "NKI016" in table[2]
    assert " µs" in table[3] or " ns" in table[3]
