"""Nothing of the user's is executed or imported: every way to run code holds a canary, and all of them stay alive."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nki_lab import query, spec

ROOT = Path(__file__).parents[3]

# Each line, or block, would leave MARK behind if it ran.
CANARIES = """
os.system(f"touch {MARK}")
open(MARK, "w").write("x")
Path(MARK).write_text("x")
pathlib.Path(MARK).touch()
subprocess.run(["touch", MARK])
exec("open(MARK, 'w')")
eval("open(MARK, 'w')")
compile("1", "f", "exec")
__import__("canary_module")
importlib.import_module("canary_module")
import canary_module
from canary_module import anything
from canary_package.inner import anything
globals()["open"](MARK, "w")
vars()["open"](MARK, "w")
getattr(os, "sys" + "tem")(f"touch {MARK}")
getattr(__builtins__, "open")(MARK, "w")
__builtins__["open"](MARK, "w")
(lambda: open(MARK, "w"))()
[open(MARK, "w") for _ in range(1)]
sorted([1, 2], key=lambda v: open(MARK, "w"))
nl.add.__globals__["__builtins__"]["open"](MARK, "w")
nl.load.__code__.replace(co_code=b"")
().__class__.__base__.__subclasses__()
"{0.__class__}".format(nl.load)
f"{nl.load.__globals__}"
print("x", file=open(MARK, "w"))
type("T", (), {"__init__": lambda self: open(MARK, "w")})()
with open(MARK, "w") as f: pass
breakpoint()
input()
exit()
quit()
raise SystemExit
os._exit(3)
""".strip().split("\n")

IMPORTS = "import importlib, os, pathlib, subprocess\nfrom pathlib import Path\nimport nki\nimport nki.language as nl\n"


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a canary would make; modules that make it on import are importable."""
    made = tmp_path / "mark"
    (tmp_path / "canary_module.py").write_text(f"open({str(made)!r}, 'w')\nanything = 1\n")
    (tmp_path / "canary_package").mkdir()
    for name in ("__init__", "inner"):
        (tmp_path / "canary_package" / f"{name}.py").write_text(f"open({str(made)!r}, 'w')\nanything = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return made


def survives(mark: Path, text: str) -> None:
    for arguments in (None, [spec((128, 64), "float32")]):
        query.check(source=text, function="kernel", args=arguments, target="trn2")
    for line in range(1, text.count("\n") + 1):
        query.hover(text, line, 8)
    assert not mark.exists()
    assert not [name for name in sys.modules if name.startswith("canary_")]


@pytest.mark.parametrize("canary", CANARIES)
def test_a_kernel_runs_nothing(mark: Path, canary: str) -> None:
    body = textwrap.indent(canary, "    ")
    survives(mark, f"{IMPORTS}MARK = {str(mark)!r}\n@nki.jit\ndef kernel(x):\n{body}\n    return x\n")


@pytest.mark.parametrize("canary", CANARIES)
def test_a_module_runs_nothing(mark: Path, canary: str) -> None:
    launch = "import numpy as np\nif __name__ == '__main__':\n    kernel(np.zeros((128, 64), np.float32))\n"
    kernel = "@nki.jit\ndef kernel(x):\n    return x\n"
    survives(mark, f"{IMPORTS}MARK = {str(mark)!r}\n{canary}\n{kernel}{launch}{textwrap.indent(canary, '    ')}\n")


PLACES = """
def kernel(x, y=open(MARK, "w")):
    return x
---
@open(MARK, "w").write
def kernel(x):
    return x
---
def decorator(function):
    open(MARK, "w")
    return function
@decorator
@nki.jit
def kernel(x):
    return x
---
class Config(nl.NKIObject):
    a: int = open(MARK, "w")
    open(MARK, "w")
    def __init_subclass__(cls):
        open(MARK, "w")
    def __init__(self):
        open(MARK, "w")
    def __del__(self):
        open(MARK, "w")
class Other(Config, metaclass=open(MARK, "w")):
    pass
def kernel(x):
    Config().b
    Other()
    return x
---
def kernel(x: open(MARK, "w")) -> open(MARK, "w"):
    y: open(MARK, "w") = 1
    return x
---
class Evil:
    def __index__(self): return open(MARK, "w")
    def __hash__(self): return open(MARK, "w")
    def __eq__(self, other): return open(MARK, "w")
    def __repr__(self): return open(MARK, "w")
    def __format__(self, s): return open(MARK, "w")
    def __iter__(self): return open(MARK, "w")
    def __getattr__(self, name): return open(MARK, "w")
def kernel(x):
    e = Evil()
    x[e]
    {e: 1}
    e == e
    f"{e}"
    for i in e: pass
    e.anything
    nl.ndarray(e, e)
    sorted([e, e])
    max(e, e)
    return x
---
from enum import Enum
class Mode(Enum):
    A = open(MARK, "w")
    def _generate_next_value_(name, *rest): return open(MARK, "w")
def kernel(x):
    Mode.A
    return x
---
from dataclasses import dataclass, field
@dataclass
class C:
    a: int = field(default_factory=lambda: open(MARK, "w"))
def kernel(x):
    C()
    return x
---
def kernel(x):
    try:
        import canary_module
    except ImportError:
        from canary_module import anything
    finally:
        open(MARK, "w")
    return x
""".strip().split("\n---\n")


@pytest.mark.parametrize("place", PLACES)
def test_no_place_of_the_grammar_runs_code(mark: Path, place: str) -> None:
    survives(mark, f"{IMPORTS}MARK = {str(mark)!r}\n{place}\n")


AUDIT = """
import sys
from nki_lab import query
path = sys.argv[1]
query.check(source="import nki\\n@nki.jit\\ndef k(x):\\n    return [x]\\n", function="k")  # loads our own modules
def audit(event, details):
    if event == "open" and details[1] is not None and set(str(details[1])) & set("wax+"):
        raise SystemExit(f"opened {details}")
    if event == "exec" and details[0].co_filename == path:
        raise SystemExit("executed")
    if event == "import" and details[0].startswith("canary"):
        raise SystemExit(f"imported {details[0]}")
    if event.startswith(("os.system", "os.exec", "os.posix_spawn", "subprocess.", "socket.", "shutil.", "os.remove")):
        raise SystemExit(event)
sys.addaudithook(audit)
found = query.check(path)
print(sorted({item.code for item in found}))
"""


def test_the_interpreter_itself_sees_no_code_of_the_user_s_run(mark: Path, tmp_path: Path) -> None:
    lines = [line for line in CANARIES if not line.startswith("raise")]
    file = tmp_path / "kernels.py"
    body = "".join(f"    if x is not None:\n        {line}\n" for line in lines)
    file.write_text(
        f"{IMPORTS}MARK = {str(mark)!r}\n"
        f"@nki.jit\ndef kernel(x):\n{body}    return x[0:500]\n"
        "import numpy as np\nkernel(np.zeros((128, 64), np.float32))\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{AUDIT}", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "NKI303" in done.stdout  # the end of the kernel was reached
    assert not mark.exists()
