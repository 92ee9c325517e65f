"""A check of a folder executes nothing of it: every file holds canaries, and the interpreter's own audit hears none.

The hook is Python's: it is told of every file that is opened, every code object that is executed, every module that is
imported and every process that is started, whatever name the user's code calls them by.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

AUDIT = """
import sys
import threading
from pathlib import Path
from nki_lab import cli

# Beside a thread nothing is forked: files are checked in this process, which is the one that is listened to.
threading.Thread(target=threading.Event().wait, daemon=True).start()
folder = sys.argv[1]
cli.main(["check", "--jobs", "1", str(Path(folder, "warm"))])  # loads our own modules
heard = []

def audit(event, details):
    if event == "open" and details[1] is not None and set(str(details[1])) & set("wax+"):
        heard.append(f"opened {details[0]}")
    elif event == "exec" and details[0].co_filename.startswith((folder, "canary", "<string>", "kernel")):
        heard.append(f"executed {details[0].co_filename}")
    elif event == "import" and details[0].startswith(("canary", "torch", "jax", "sitecustomize")):
        heard.append(f"imported {details[0]}")
    elif event.startswith(("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "socket.", "shutil.",
                           "os.remove", "os.rename", "os.mkdir", "ctypes.", "pty.", "webbrowser.", "urllib.")):
        heard.append(event)

sys.addaudithook(audit)
print("FOUND")
status = cli.main(["check", "--jobs", "1", "--format", "json", folder])
assert not heard, heard
assert not [name for name in sys.modules if name.startswith("canary")]
print("STATUS", status)
"""

HEAD = {
    "current": "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport nki.typing as nt\n",
    "beta1": "from neuronxcc import nki\nimport neuronxcc.nki.isa as nisa\nimport neuronxcc.nki.language as nl\n"
    "import neuronxcc.nki.typing as nt\n",
}
KERNEL = """
import numpy as np

@nki.jit
def kernel(x: nt.tensor[(128, 64), nl.float32]):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
{}
    nl.store(out, t)
    return out[0:500]

if __name__ == "__main__":
    kernel(np.zeros((128, 64), np.float32))
"""

PLACES = {
    "imports": "import canary_module\nfrom canary_module import *\nfrom canary_package import inner as i\n"
    "try:\n    import canary_other\nexcept ImportError:\n    import canary_module as canary_other\n",
    "decorators": "@open(MARK, 'w').write\ndef f(): pass\n@(lambda g: open(MARK, 'w'))\nclass C: pass\n",
    "defaults": "def f(a=open(MARK, 'w'), *, b=open(MARK, 'w')): pass\ng = lambda a=open(MARK, 'w'): a\nf()\n",
    "annotations": "def f(a: open(MARK, 'w'), b: 'open(MARK, \"w\")') -> open(MARK, 'w'): pass\nz: open(MARK, 'w') = 1\n",
    "a class body": "class C(nl.NKIObject if hasattr(nl, 'NKIObject') else object):\n    open(MARK, 'w')\n"
    "    a = open(MARK, 'w')\n    [open(MARK, 'w') for _ in range(1)]\nC()\n",
    "a metaclass": "class M(type):\n    def __new__(*a): open(MARK, 'w')\n    def __call__(*a): open(MARK, 'w')\n"
    "    def __prepare__(*a): open(MARK, 'w')\n    def __getattr__(*a): open(MARK, 'w')\n"
    "class C(metaclass=M): pass\nC.anything\nC()\n",
    "hooks of classes": "class D:\n    def __set_name__(*a): open(MARK, 'w')\n    def __get__(*a): open(MARK, 'w')\n"
    "class C:\n    d = D()\n    def __init_subclass__(*a): open(MARK, 'w')\n"
    "    def __class_getitem__(*a): open(MARK, 'w')\nclass E(C): pass\nC[1]\nE().d\n",
    "properties": "class C:\n    @property\n    def p(self): open(MARK, 'w')\n    def __getattr__(self, n): open(MARK, 'w')\n"
    "    def __getattribute__(self, n): open(MARK, 'w')\nC().p\nC().q\n",
    "operators": "class C:\n    def __bool__(s): open(MARK, 'w')\n    def __add__(s, o): open(MARK, 'w')\n"
    "    def __len__(s): open(MARK, 'w')\n    def __str__(s): open(MARK, 'w')\n    def __del__(s): open(MARK, 'w')\n"
    "    def __enter__(s): open(MARK, 'w')\n    def __exit__(*a): open(MARK, 'w')\n"
    "    def __array__(s, *a): open(MARK, 'w')\n    def __index__(s): open(MARK, 'w')\n"
    "c = C()\nif c: c + c\nprint(c, f'{c!r:{c}}', len(c), range(c))\nwith c: pass\nnp = c\n",
    "names of a module": "def __getattr__(name): open(MARK, 'w')\ndef __dir__(): open(MARK, 'w')\n__all__ = [open(MARK, 'w')]\n",
    "import by name": "__import__('canary_module')\nimport importlib\nimportlib.import_module('canary_module')\n"
    "importlib.reload(importlib)\n__loader__.load_module('canary_module')\n",
    "code as text": "exec(\"open(MARK, 'w')\")\neval(\"open(MARK, 'w')\")\ncompile('open(MARK)', 'f', 'exec')\n"
    "exec(compile('import canary_module', 'kernel', 'exec'))\n",
    "attributes": "getattr(__builtins__, 'op' + 'en')(MARK, 'w')\nvars()['open'](MARK, 'w')\nglobals()['open'](MARK, 'w')\n"
    "().__class__.__base__.__subclasses__()[0]()\nnl.load.__globals__['open'](MARK, 'w')\n"
    "nki.jit.__code__.replace(co_consts=())\n(lambda: 0).__code__.co_code\nnl.load.__builtins__['open'](MARK, 'w')\n"
    "type('T', (), {'__init__': lambda s: open(MARK, 'w')})()\n'{0.__class__.__init__}'.format(nl)\n",
    "generators": "def g():\n    open(MARK, 'w')\n    yield open(MARK, 'w')\nlist(g())\nnext(g())\n"
    "async def a(): open(MARK, 'w')\nimport asyncio\nasyncio.run(a())\n",
    "processes": "import os, subprocess, shutil, socket, ctypes\nos.system('touch canary')\nsubprocess.run(['touch', MARK])\n"
    "shutil.rmtree('/canary')\nsocket.create_connection(('localhost', 1))\nctypes.CDLL('libc.so.6').system(b'touch canary')\n",
    "ends": "import os, sys, signal\nos._exit(7)\nsys.exit(7)\nos.kill(os.getpid(), signal.SIGKILL)\nquit()\nraise SystemExit(7)\n",
    "dataclasses": "from dataclasses import dataclass, field\nfrom enum import Enum\n@dataclass\nclass C:\n"
    "    a: int = field(default_factory=lambda: open(MARK, 'w'))\n    def __post_init__(self): open(MARK, 'w')\nC()\n"
    "class E(Enum):\n    A = open(MARK, 'w')\n    def __new__(*a): open(MARK, 'w')\n"
    "    def _generate_next_value_(*a): open(MARK, 'w')\n    def _missing_(*a): open(MARK, 'w')\nE('x')\n",
    "pickles and hooks": "import pickle, sys, atexit, codecs\npickle.loads(b'cos\\nsystem\\n(S\"touch canary\"\\ntR.')\n"
    "sys.settrace(lambda *a: open(MARK, 'w'))\natexit.register(open, MARK, 'w')\n"
    "codecs.register(lambda n: open(MARK, 'w'))\nsys.meta_path.insert(0, None)\nsys.modules['nki'] = None\n",
    "frameworks": "import torch\nimport jax\ntorch.zeros(3)\njax.jit(lambda x: open(MARK, 'w'))(1)\n",
}
"""What a module says, by the place where its code stands. MARK is a file that would be there if any of it ran."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of kernels with canaries at module level and in kernels, in files and notebooks, and modules beside."""
    made = tmp_path / "kernels"
    made.mkdir()
    (made / "warm").mkdir()
    for dialect, head in HEAD.items():
        (made / "warm" / f"{dialect}.py").write_text(head + KERNEL.format("    pass"), encoding="utf-8")
    mark = f"MARK = {str(tmp_path / 'mark')!r}\n"
    evil = f"open({str(tmp_path / 'mark')!r}, 'w')\nanything = inner = 1\n"
    (made / "canary_module.py").write_text(evil, encoding="utf-8")
    (made / "canary_package").mkdir()
    for name in ("__init__", "inner"):
        (made / "canary_package" / f"{name}.py").write_text(evil, encoding="utf-8")
    (made / "conftest.py").write_text(evil, encoding="utf-8")
    (made / "sitecustomize.py").write_text(evil, encoding="utf-8")
    (made / "canary_codec.py").write_text(f"# coding: canary_module\n{evil}", encoding="utf-8")
    for number, code in enumerate(PLACES.values()):
        inside = "".join(f"    {line}\n" for line in code.splitlines())
        for dialect, head in HEAD.items():
            for kind, text in (("module", code + KERNEL.format("    pass")), ("kernel", KERNEL.format(inside))):
                (made / f"{kind}_{dialect}_{number}.py").write_text(head + mark + text, encoding="utf-8")
    cells = [HEAD["current"] + mark, *PLACES.values(), KERNEL.format("    pass")]
    book = {"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell}
                      for cell in cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip
    (made / "book.ipynb").write_text(json.dumps(book), encoding="utf-8")
    return made


def test_a_folder_is_read_and_not_run(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{AUDIT}", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "STATUS 1" in done.stdout
    assert not (tmp_path / "mark").exists()
    found = json.loads(done.stdout.partition("FOUND")[2].partition("STATUS")[0])
    codes = {item["code"] for item in found}
    assert "NKI901" not in codes
    reached = {Path(item["file"]).name for item in found if item["code"] == "NKI303"}
    modules = {f"module_{dialect}_{number}.py" for dialect in HEAD for number in range(len(PLACES))}
    assert len(modules & reached) >= len(modules) // 2  # the ends of kernels were reached, past the canaries
