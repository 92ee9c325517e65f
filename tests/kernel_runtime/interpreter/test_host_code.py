"""Code of the host's inside kernels: environments, loggers, clocks. It hides nothing that the kernel does."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import nki_lab

SOURCE = """
import json
import logging
import os
import sys
import time
import warnings

import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

logger = logging.getLogger(__name__)
log = logger.debug
LEVEL = os.environ["LEVEL"]
{module}

@nki.jit
def kernel(x: nt.tensor[128, 512]):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(tile, value=0.0)
{body}
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(tile, tile, other, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
ABOUT_TENSORS = {"NKI301", "NKI414"}
"""The kernel reads a tile that nothing writes, and writes one over before anything reads it."""
UNEVALUATED = "NKI122"


def codes(body: str, module: str = "", file: Path | None = None) -> set[str]:
    text = SOURCE.format(body=textwrap.indent(body, "    "), module=module)
    if file is None:
        return {item.code for item in nki_lab.check(source=text)}
    file.write_text(text, encoding="utf-8")
    return {item.code for item in nki_lab.check(str(file))}


HOST = [
    'logger.info("%s %s", tile, other)',
    'log("%s", tile)',
    "print(tile, other, file=sys.stderr)",
    "print(id(tile), dir(other))",
    'if logger.isEnabledFor(logging.DEBUG):\n    logger.debug("%s", tile.shape)\n    logger.debug(other)',
    "for key, value in os.environ.items():\n    print(key, value.upper(), tile)",
    'with warnings.catch_warnings():\n    warnings.warn(f"{tile}")',
    "start = time.perf_counter()\ndelta = time.perf_counter() - start\nif delta > 1:\n    print(tile, other)",
    'if LEVEL == "DEBUG":\n    logger.debug(tile)\nelif LEVEL:\n    sys.stderr.write(f"{other.shape}")',
    'while os.environ["X"]:\n    time.sleep(1)',
    'if LEVEL == "A":\n    raise ValueError(f"{tile.shape}")',
    "if LEVEL:\n    import pdb\n    pdb.set_trace()",
    "for handler in logger.handlers:\n    handler.emit(tile)",
    'if LEVEL:\n    sizes = [item for item in tile.shape]\n    print(json.dumps({"sizes": sizes}))',
    "log2 = print\nif LEVEL:\n    log2(tile)",
]


@pytest.mark.parametrize("body", HOST)
def test_host_code_hides_nothing_of_a_kernel(body: str) -> None:
    found = codes(body)
    assert found >= ABOUT_TENSORS
    assert UNEVALUATED not in found


def test_names_of_names_are_followed_once() -> None:
    """Each name stands four times in the next one: a look at the last one would be at 4 ** 8 of the first."""
    names = "level0 = os.environ.get('LEVEL')\n"
    names += "".join(f"level{n} = logging.getLevelName({' + '.join(4 * [f'level{n - 1}'])})\n" for n in range(1, 9))
    found = codes("if LEVEL:\n    logger.debug(level8)", names)
    assert found >= ABOUT_TENSORS
    assert UNEVALUATED not in found


def test_a_container_that_the_environment_fills_is_unknown() -> None:
    found = codes('found = {}\nfor key in os.environ:\n    found[key] = key.upper()\nfound["A"]')
    assert found == ABOUT_TENSORS  # no KeyError


REACHING = """
from nowhere import unknown

def write(t):
    nisa.memset(t, value=1.0)

def fresh():
    return nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)

class Box:
    def __init__(self, t):
        self.t = t

    def write(self):
        write(self.t)

    @property
    def size(self):
        write(self.t)
        return 1

    def __str__(self):
        write(self.t)
        return ""
"""
MAY_REACH = [
    "if LEVEL:\n    nisa.memset(other, value=1.0)\nelse:\n    nisa.memset(tile, value=0.0)",
    "if LEVEL:\n    write(other)",
    "if LEVEL:\n    print(write(other))",
    "if LEVEL:\n    logger.info(nisa.memset(other, value=1.0))",
    "if LEVEL:\n    unknown(other)",
    "y = None\nif LEVEL:\n    y = other\nnisa.memset(y, value=1.0)",
    "y = tile\nif LEVEL:\n    y = other\nnisa.memset(y, value=1.0)",
    "kept = []\nif LEVEL:\n    kept.append(other)\nfor t in kept:\n    write(t)",
    "kept = {'a': other}\nif LEVEL:\n    y = kept['a']\nnisa.memset(y, value=1.0)",
    "kept = [other]\nfor key in os.environ:\n    for t in kept:\n        write(t)",
    "def inner():\n    nisa.memset(other, value=1.0)\nif LEVEL:\n    inner()",
    "if LEVEL:\n    other, tile",  # as a line that could not be parsed is read
    "alias = write\nif LEVEL:\n    alias(other)",
    "if LEVEL:\n    call = lambda: write(other)\n    call()",
    "box = Box(other)\nif LEVEL:\n    box.write()",
    "box = Box(other)\nif LEVEL:\n    print(box.size)",
    'box = Box(other)\nif LEVEL:\n    print(f"{box}")',
    "if LEVEL:\n    Box(other).write()",
    "for key in os.environ:\n    if key:\n        break\nelse:\n    write(other)",
]


@pytest.mark.parametrize("body", MAY_REACH)
def test_skipped_code_that_may_reach_a_tensor_is_no_host_code(body: str) -> None:
    found = codes(body, REACHING)
    assert UNEVALUATED in found
    assert not found & ABOUT_TENSORS


def test_skipped_code_that_issues_instructions_of_its_own_is_no_host_code() -> None:
    found = codes("if LEVEL:\n    print(fresh())", REACHING)
    assert UNEVALUATED in found
    assert "NKI414" not in found


MAY_WRITE = [
    "unknown(other)",
    "unknown.info(other)",
    "sys.modules['helpers'].write(other)",
    "kept = os.environ.setdefault('X', other)\nnisa.memset(kept, value=1.0)",
    "either = logger if LEVEL else unknown\neither.info(other)",
    "def again(log):\n    log(other)\nagain(unknown)",
    "for log in (logger.info, unknown):\n    log(other)",
]


@pytest.mark.parametrize("body", MAY_WRITE)
def test_calls_that_may_write_what_they_get_are_no_calls_of_the_host(body: str) -> None:
    assert "NKI301" not in codes(body, REACHING)


def test_a_return_that_is_skipped_leaves_the_rest_of_a_kernel_in_doubt() -> None:
    assert UNEVALUATED in codes("if LEVEL:\n    return out")
    assert UNEVALUATED in codes(
        "helper(tile)", "def helper(t):\n    if LEVEL:\n        return\n    nisa.memset(t, value=1.0)\n"
    )


LOGGING = """
import os
import sys
from enum import Enum

{imports}

class Level(Enum):
    DEBUG = 0
    INFO = 1

    @staticmethod
    def of(text):
        return _LEVELS[text]

_LEVELS = {{"DEBUG": Level.DEBUG, "INFO": Level.INFO}}

class Logger({base}):
    def __init__(self, name, level=Level.INFO):
        self.name = name
        self.level = level

    def is_enabled_for(self, level):
        return level.value >= self.level.value

    def _print(self, text):
        print(f"[{{self.name}}] {{text}}", file=sys.stderr)

    def info(self, text):
        if self.is_enabled_for(Level.INFO):
            self._print(text)

def _levels():
    own, level = {{}}, None
    for key, value in os.environ.items():
        if key == "LEVEL":
            try:
                level = Level.of(value.upper())
            except KeyError:
                print("no such level", file=sys.stderr)
        elif key.startswith("LEVEL_"):
            own[key.removeprefix("LEVEL_")] = Level.of(value)
    return level, own

_LEVEL, _OWN = _levels()

def get_logger(name):
    level = _OWN.get(name)
    if level != None:
        return Logger(name, level)
    if _LEVEL != None:
        return Logger(name, _LEVEL)
    return Logger(name)

logger = get_logger("kernels")
"""


@pytest.mark.parametrize(
    ("imports", "base"), [("", "object"), ("import nki.language as nl", "nl.NKIObject")], ids=["host", "nki"]
)
@pytest.mark.parametrize("how", ["import logger as own", "import get_logger\nown = get_logger('mine')"])
def test_a_logger_of_the_users_own_is_host_code(imports: str, base: str, how: str, tmp_path: Path) -> None:
    (tmp_path / "own_logging.py").write_text(LOGGING.format(imports=imports, base=base), encoding="utf-8")
    found = codes('own.info(f"{tile.shape}")\nown.info(other)', f"from own_logging {how}", tmp_path / "kernel.py")
    assert found == ABOUT_TENSORS


def test_a_logger_that_writes_is_not(tmp_path: Path) -> None:
    text = LOGGING.format(imports="import nki.isa as nisa", base="object")
    text = text.replace("        if self.is_en", "        nisa.memset(text, value=0.0)\n        if self.is_en")
    (tmp_path / "own_logging.py").write_text(text, encoding="utf-8")
    assert not codes("own.info(other)", "from own_logging import logger as own", tmp_path / "kernel.py") & ABOUT_TENSORS


def test_an_unknown_object_of_a_module_that_was_found_is_judged_by_what_makes_it(tmp_path: Path) -> None:
    text = "import logging\nimport nowhere\nlogger = logging.getLogger('a')\nops = nowhere.ops\n"
    (tmp_path / "shared.py").write_text(text, encoding="utf-8")
    module = "import shared\nfrom shared import logger as own, ops"
    assert codes("own.info(other)\nshared.logger.info(tile)", module, tmp_path / "kernel.py") == ABOUT_TENSORS
    assert not codes("ops.fill(other)", module, tmp_path / "kernel.py") & {"NKI301"}
    assert not codes("shared.ops.fill(other)", module, tmp_path / "kernel.py") & {"NKI301"}


def test_an_object_keeps_a_logger(tmp_path: Path) -> None:
    module = "class Config:\n    def __init__(self, log):\n        self.log = log\n        self.own = logging.getLogger('a')\n"
    assert codes("Config(logger).own.info(other)", module) >= ABOUT_TENSORS
    given = "from nowhere import unknown\n" + module
    assert "NKI301" not in codes("config = Config(unknown)\nconfig.log.info(other)", given)
    changed = "config = Config(1)\nconfig.own = unknown\nconfig.own.info(other)"
    assert "NKI301" not in codes(changed, given)
