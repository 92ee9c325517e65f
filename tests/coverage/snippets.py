"""Limits of the inventory as snippets: bodies of kernels that break one, keep to it, or show what the text says.

`limits/*.toml` holds an array of tables an item. An entry repeats the inventory's `text`, and says one of

- `code`: the `violation` is refused, or reported, with it, at `operand` where that is given; `legal` goes through;
  without a `violation` it is a limit that the instruction's declaration states, and the test of declarations breaks it;
- `holds`: a body that does what the text permits, of which `expect` is the result and `engine` that of its last op;
- `reason`: why the text states nothing that a kernel could break or show.

`door` says how bodies are put to the test: "compile" by default, "run" on numbers, and two where the body is a module's
and not a kernel's: "script" executes it, findings are those of its `run`, and "check" reads it as an editor does.
Bodies use the fixtures of FIXTURES, and `x`, a (128, 64) float32 argument whose elements count from 0. Of an entry's
`target` the default is trn2.
"""

from __future__ import annotations

import linecache
import textwrap
import tomllib
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

import nki_lab
from nki_lab.diagnostic import Diagnostic, NkiError

FOLDER: Final = Path(__file__).parent
FIXTURES: Final = '''
from enum import Enum

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from nki.language import NKIObject

import nki_lab


def sbuf(shape=(128, 64), dtype=nl.float32, at=None):
    """A tile."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, address=at)


def psum(shape=(128, 64), dtype=nl.float32, at=None):
    """A tile in PSUM."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum, address=at)


def hbm(shape=(128, 64), dtype=nl.float32):
    """A tensor in HBM."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def stored(tile):
    """A tile as a result."""
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(result, tile)
    return result


def rows(dtype=nl.float32, count=128):
    """Rows of a tensor in HBM, by an index each."""
    index = nl.ndarray((count, 1), dtype=nl.uint32, buffer=nl.sbuf)
    return hbm((256, 64), dtype).ap([[64, count], [1, 64]], vector_offset=index, indirect_dim=0)


def picked(space=nl.sbuf, rows=128, count=16, dtype=nl.float32):
    """`count` columns of a tile, picked by offsets in SBUF."""
    tile = nl.ndarray((rows, 64), dtype=dtype, buffer=space)
    index = nl.ndarray((rows, 4), dtype=nl.uint16, buffer=nl.sbuf)
    return tile.indirect(index, count)


def placed(index=0, data=0, space=nl.sbuf, dtype=nl.float32, count=16):
    """The same of 32 rows, of which data and index are placed at partitions."""
    tile = nl.ndarray((32, 64), dtype=dtype, buffer=space, address=(data, 0))
    whole = nl.ndarray((128, 4), dtype=nl.uint16, buffer=nl.sbuf, address=(0, 32768))
    return tile.indirect(whole[index:index + 32], count)

def pair():
    """A group of two ranks."""
    return ncc.ReplicaGroup([[0, 1]])


def chip():
    """The four ranks of a chip."""
    return ncc.ReplicaGroup([[0, 1, 2, 3]])

'''
KINDS: Final = ("code", "holds", "reason")
# Fixtures are made and not filled, and what a body computes is seldom returned.
UNFILLED: Final = ("NKI301", "NKI302", "NKI308")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is said about one text of one item, see the module."""

    item: str
    text: str
    code: str = ""
    operand: str = ""
    violation: str = ""
    legal: str = ""
    holds: str = ""
    expect: Any = None
    engine: str = ""
    reason: str = ""
    target: str = "trn2"
    door: str = "compile"
    cores: int = 0
    module: str = ""
    origin: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind))


@cache
def entries() -> tuple[Entry, ...]:
    """All entries of all files, in their order."""
    found = []
    for file in sorted((FOLDER / "limits").glob("*.toml")):
        for item, blocks in tomllib.loads(file.read_text(encoding="utf-8")).items():
            found += [Entry(item=item, origin=file.name, **block) for block in blocks]
    return tuple(found)


def kernel_text(entry: Entry, body: str) -> str:
    """A body as a module: of a kernel, or as it is."""
    if entry.door in ("script", "check"):
        return f"{FIXTURES}\n{entry.module}\n{body}"
    return f"{FIXTURES}\n{entry.module}\ndef kernel(x):\n{textwrap.indent(body, '    ')}\n    return hbm()\n"


_numbers = count()


def found(entry: Entry, body: str) -> list[Diagnostic]:
    """Everything that is said about a body, put to the test as its entry says; `AssertionError` where it was wrong."""
    text = kernel_text(entry, body)
    name = f"limit_{next(_numbers)}.py"
    if entry.door == "check":
        return nki_lab.check(source=text, target=entry.target)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": name.removesuffix(".py")}
    try:
        exec(compile(text, name, "exec"), names)
        if entry.door == "script":
            return list(names["run"].diagnostics) if "run" in names else []
        if entry.door == "run":
            values = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
            run = nki_lab.run(names["kernel"], values, target=entry.target)
            if body == entry.holds and entry.expect is not None:
                np.testing.assert_array_equal(run.outputs[0], entry.expect)
            return list(run.diagnostics)
        shape = nki_lab.spec((128, 64), "float32")
        program = nki_lab.compile(names["kernel"], shape, target=entry.target, grid=entry.cores or None)
        if entry.engine and body == entry.holds:
            assert program.op(len(program) - 1).variant.use.engine == entry.engine
        return list(program.diagnostics)
    except NkiError as error:
        return list(error.diagnostics)
    finally:
        linecache.cache.pop(name, None)


def complaints(entry: Entry) -> list[str]:
    """How what happens differs from what the entry says."""
    out = []
    if entry.code:
        said = found(entry, entry.violation)
        hits = [item for item in said if item.code == entry.code]
        if not hits:
            out.append(f"no {entry.code} but {[f'{item.code} {item.message}' for item in said]}")
        elif entry.operand and all(item.operand != entry.operand for item in hits):
            out.append(f"{entry.code} at {[item.operand for item in hits]}, not at {entry.operand}")
    for body in filter(None, (entry.legal, entry.holds)):
        bad = [item for item in found(entry, body) if item.severity == "error" and item.code not in UNFILLED]
        out += [f"{item.code} {item.message}" for item in bad]
    return out
