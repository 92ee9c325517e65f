"""`nki-lab migrate --verify`: a kernel before and after, run on the same drawn inputs and compared."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from inspect import signature as signature_of
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki_lab.cli.scripts import execute, import_folder
from nki_lab.diagnostic import NkiError
from nki_lab.file_system import private_folder, write_whole
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.interpreter import UNKNOWN, Signature
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.options import Options

EQUAL: Final = "equal"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of one kernel: `outcome` is "equal", "different" or "not run", `text` says it in full."""

    kernel: str
    outcome: str
    text: str
    difference: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Return the verdict as plain data."""
        return {"kernel": self.kernel, "outcome": self.outcome, "text": self.text, "difference": self.difference}


def verified(
    path: Path,
    before: str,
    after: str,
    signatures: Mapping[str, Sequence[Signature]],
    kernels: Sequence[str],
    arch: Arch,
) -> list[Verdict]:
    """Run the kernels of both texts on drawn inputs, with every rounding, and compare what they return.

    Executes the module as `nki-lab run` does, but not as a script. Arrays that a kernel of Beta 1 fills count as its
    results.
    """
    from nki_lab import dialects

    dialects.activate()
    with private_folder() as folder, import_folder(path):
        scopes = []
        for number, text in enumerate((before, after)):
            file = folder / f"{'after' if number else 'before'}_{path.stem}.py"
            write_whole(file, text.encode("utf-8"))
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    scopes.append(execute(file, path.stem, show=False))
            except (NkiError, SystemExit) as error:
                reason = f"the {'migrated ' if number else ''}module does not load: {_first(error)}"
                return [Verdict(name, "not run", reason) for name in kernels]
        return [_compared(name, scopes, signatures.get(name, ()), arch) for name in kernels]


def _first(error: BaseException) -> str:
    text = error.diagnostics[0].message if isinstance(error, NkiError) and error.diagnostics else str(error)
    return text.partition("\n")[0]


def _compared(name: str, scopes: Sequence[Mapping[str, Any]], found: Sequence[Signature], arch: Arch) -> Verdict:
    """Compare a kernel with each signature that is known of it."""
    if name not in scopes[0]:
        return Verdict(name, "not run", "a function or class makes it: only kernels of the module itself are run")
    needed = _needed(scopes[0][name])
    known = [item for item in found if not item.assumed and not _has_unknown(item)]
    if not known and needed:
        options = " ".join(f"--arg {item}=dtype[sizes]" for item in needed)
        return Verdict(name, "not run", f"its arguments are not known: pass {options}")
    known = known or [Signature()]
    verdicts = [_with_arguments(name, scopes, item, arch) for item in known]
    worst = [item for item in verdicts if item.outcome == "different"] or [
        item for item in verdicts if item.outcome == "not run"
    ]
    return worst[0] if worst else verdicts[0]


def _needed(kernel: object) -> list[str]:
    """Return the parameters of a kernel without which it cannot run."""
    from nki_lab.dialects.kernel import as_kernel

    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    try:
        parameters = signature_of(as_kernel(kernel).function).parameters.values()
    except (NkiError, TypeError, ValueError):  # the name stands for something else by now
        return ["NAME"]
    return [item.name for item in parameters if item.default is Parameter.empty and item.kind not in kinds]


def _has_unknown(signature: Signature) -> bool:
    """Return whether an argument of a call is not known."""
    return any(item is UNKNOWN for item in (*signature.args, *signature.kwargs.values()))


def _with_arguments(name: str, scopes: Sequence[Mapping[str, Any]], signature: Signature, arch: Arch) -> Verdict:
    from nki_lab.result.inputs import maker

    results = []
    for number, scope in enumerate(scopes):
        make = maker("randn(seed=0)")
        try:
            args = [_value(item, make) for item in signature.args]
            kwargs = {key: _value(item, make) for key, item in signature.kwargs.items()}
            results.append(_outputs(scope[name], args, kwargs, signature.grid or (), arch, is_new=bool(number)))
        except (NkiError, AssertionError, TypeError, ValueError, KeyError, IndexError) as error:
            which = "after the migration" if number else "before it"
            return Verdict(name, "not run", f"the kernel fails {which}: {_first(error)}")
    old, new = results
    if len(old) != len(new):
        return Verdict(name, "different", f"{len(old)} results before, {len(new)} after")
    worst = 0.0
    for first, second in zip(old, new, strict=True):
        if first.shape != second.shape or first.dtype != second.dtype:
            return Verdict(
                name, "different", f"a result is {second.shape} {second.dtype}, it was {first.shape} {first.dtype}"
            )
        if first.tobytes() != second.tobytes():
            worst = max(worst, _difference(first, second))
    if worst == 0.0:
        return Verdict(name, EQUAL, f"equal on {signature}")
    return Verdict(name, "different", f"differs by up to {worst:.3g} on {signature}", worst)


def _difference(first: Any, second: Any) -> float:
    """Return the largest difference; infinity where one has NaN and the other has not."""
    a, b = np.asarray(first).astype(np.float64), np.asarray(second).astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    with np.errstate(invalid="ignore"):
        apart = np.where(a == b, 0.0, np.abs(a - b))
    return float(np.nanmax(apart, initial=0.0))


def _value(item: object, make: Callable[[TensorSpec], Any]) -> object:
    if not isinstance(item, TensorSpec):
        return item
    made = make(item)
    return np.abs(made) if made.dtype.kind == "i" else made  # integers may be indices


def _outputs(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], grid: tuple[int, ...], arch: Arch, *, is_new: bool
) -> list[Any]:
    """Return what a kernel returns, or what it wrote into its arguments."""
    from nki_lab.dialects.kernel import as_kernel

    options = Options(precise=True, matmul_order="tile")
    plain = as_kernel(kernel)
    more = dict(kwargs)
    if grid:
        names = [key for key in plain.function.__code__.co_varnames if key.startswith("programs_")]
        if is_new and len(names) == len(grid):
            more |= dict(zip(names, grid, strict=True))
        else:
            plain = plain[grid if len(grid) > 1 else grid[0]]
    given = [item for item in (*args, *more.values()) if isinstance(item, np.ndarray)]
    before = [np.array(item, copy=True) for item in given]
    done = plain.execute(tuple(args), more, target=arch, options=options)
    found = [np.asarray(item) for item in done.flat]
    return found or [item for item, old in zip(given, before, strict=True) if item.tobytes() != old.tobytes()]
