"""Kernels of Beta 1 migrated and run both ways, for the tests of this folder."""

from __future__ import annotations

import textwrap
from pathlib import Path

from nki_lab.cli.verifying import Verdict, verified
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.interpreter import Signature
from nki_lab.kernel_runtime.issue.arguments import spec
from nki_lab.migrate import Migrated, migrated
from nki_lab.query import EvaluationRequest

HEAD = """\
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
"""
NEW_HEAD = """\
import numpy as np
import nki
import nki.compiler as ncc
import nki.isa as nisa
import nki.language as nl


@nki.jit
"""
OUT = "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)"


def specs(**shapes: str) -> dict[str, object]:
    """Return arguments: `x="float32 128 512"`."""
    found: dict[str, object] = {}
    for name, text in shapes.items():
        kind, *sizes = text.split()
        found[name] = spec(tuple(map(int, sizes)), dtype_of(kind).name)
    return found


def kernel(body: str, signature: str = "x") -> str:
    """Return a kernel with this body."""
    return f"def kernel({signature}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


def migrate(text: str, arguments: dict[str, object] | None = None, *, target: str = "trn2") -> Migrated:
    """Return the migration of a whole text, with or without known arguments of its kernel."""
    explicit = None if arguments is None else Signature(kwargs=arguments)
    return migrated(text, "kernels.py", EvaluationRequest(arch=arch_of(target), explicit=explicit))


def compared(text: str, done: Migrated, arguments: dict[str, object], *, target: str = "trn2") -> list[Verdict]:
    """Run a text and its migration on the same drawn inputs."""
    names = list(done.kernels)
    known = {name: (Signature(kwargs=arguments),) for name in names}
    return verified(Path("kernels.py"), text, done.text, known, names, arch_of(target))
