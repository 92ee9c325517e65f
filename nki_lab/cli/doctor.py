"""The output of `nki-lab doctor`: facts about the computer for bug reports, and the modelled part of NKI."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nki_lab.own_faults import installed_version, version
from nki_lab.processors import processor_count

PACKAGES: Final = ("numpy", "ml_dtypes", "pyarrow", "ipywidgets", "bokeh", "jupyterlab", "pygls", "lsprotocol",
                   "libcst", "perfetto", "numba", "torch", "jax")  # fmt: skip
"""Packages that nki_lab needs always, for notebooks, for editors, for exports, and optional libraries."""

EXTENSION: Final = Path("share", "jupyter", "labextensions", "nki-lab", "package.json")


def findings() -> dict[str, Any]:
    """Versions, the target in force and where it is from, real NKI packages, and how much of NKI there is."""
    from nki_lab.dialects.activation import real_packages
    from nki_lab.dialects.environment import resolve_target, target_origin
    from nki_lab.dialects.shims import shims
    from nki_lab.isa.arch import GENERATIONS, TARGETS
    from nki_lab.kernel_runtime import compiled_code
    from nki_lab.kernel_runtime.numerics import blas

    return {
        "nki_lab": version(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": processor_count(),
        "packages": {name: installed_version(name) for name in PACKAGES},
        "blas": blas.library(),
        "blas_threads": blas.threads(),
        "walk": compiled_code.status(),
        "labextension": _extension(),
        "real_packages": real_packages(),
        "shims": shims(),
        "target": resolve_target().target,
        "target_from": target_origin(),
        "generations": {
            arch.name: [name for name, its in TARGETS.items() if its is arch] for arch in GENERATIONS.values()
        },
        "modelled": _modelled(),
    }


def as_text(found: Mapping[str, Any]) -> str:
    threads = found["blas_threads"]
    rows = [
        ("nki_lab", found["nki_lab"]),
        ("Python", f"{found['python']} ({found['executable']})"),
        ("system", f"{found['system']}, {_counted(found['processors'], 'processor')}"),
        *((name, text or "not installed") for name, text in found["packages"].items()),
        ("BLAS", found["blas"] + (f", {_counted(threads, 'thread')}" if threads else "")),
        ("timing walk", found["walk"]),
        ("JupyterLab", f"extension in {found['labextension']}" if found["labextension"] else "no extension"),
    ]
    for name, place in found["real_packages"].items():
        rows.append((name, f"a real package, {place}: activate(force=True) and run --force simulate all the same"))
    for name, place in found["shims"].items():
        rows.append((name, f"the installed package, {place}" if place else "simulated while nki_lab is active"))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}} {text}" for name, text in rows]
    lines += ["", f"target in force: {found['target']} (from {found['target_from']})"]
    lines += [f"  {name:<14} {', '.join(names)}" for name, names in found["generations"].items()]
    lines.append("")
    for module, counts in found["modelled"]["modules"].items():
        release = found["modelled"]["release"]
        lines.append(f"{module}: {counts['modelled']} of {counts['published']} functions of NKI {release} modelled")
    return "\n".join([*lines, "", "nki-lab doctor --coverage lists them one by one"])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _extension() -> str:
    """Return the folder where JupyterLab finds the extension, empty where it does not."""
    folders = [Path(sys.prefix), Path.home() / ".local", Path("/usr/local"), Path("/usr")]
    return next((str(folder / EXTENSION.parent) for folder in folders if (folder / EXTENSION).is_file()), "")


def _modelled() -> dict[str, Any]:
    """Return how many functions of each module are modelled."""
    from nki_lab.cli.coverage import functions
    from nki_lab.dialects import current

    modules = {}
    for module, names in functions().items():
        made = vars(current.modules()[module])
        there = [name for name in names if not getattr(made.get(name), "is_stand_in", False)]
        modules[module] = {"published": len(names), "modelled": len(there)}
    return {"release": current.RELEASE, "modules": modules}
