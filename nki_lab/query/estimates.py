"""Estimates kernels of a module under the first signature that the source gives them.

Time, interval and memory are those of a profile of the same program: `timeline` has the one definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.interpreter import Evaluation, Signature, evaluate
from nki_lab.kernel_runtime.path import Path, known_path
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.query.estimate import Estimate
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.query.found_calls import possible_grids
from nki_lab.query.kernels import first_signature
from nki_lab.query.one_kernel import EvaluationRequest, outermost, signature_key
from nki_lab.query.parts import Part, parts_of
from nki_lab.query.running import arguments_text
from nki_lab.source import KernelFunction, SyntaxFacts
from nki_lab.timeline.timeline import made

MOST_INSTRUCTIONS: Final = 40_000
"""A program of more instructions is not timed: that cannot be interrupted, and an editor waits for its findings."""
_PICOSECONDS: Final = 1000  # in a nanosecond


def kernel_names(facts: SyntaxFacts) -> list[str]:
    """Return the names of the kernels that a module has at its end, in the order of the source."""
    found = [
        item.node for item in facts.functions if item.is_entry and facts.parsed.function(item.node.name) is item.node
    ]
    return [node.name for node in found]


def estimated(facts: SyntaxFacts, name: str, request: EvaluationRequest, cache: EvaluationCache) -> Estimate | None:
    """Return the estimate of a kernel; None where the module has no kernel of that name.

    It is recalled where nothing has changed that it depends on. Raises `Stopped` where the request's budget says so.
    """
    for part in parts_of(facts):
        kernel = next((item for item in part.kernels if item.node.name == name), None)
        if kernel is None or part.module.function(name) is not kernel.node:
            continue
        request = request.at(kernel.node.lineno)
        target = request.arch.target
        signature = first_signature(facts, part, kernel, request, cache)
        grids = [] if signature is None else possible_grids(kernel, signature, request.arch)
        if signature is None or not grids:
            return Estimate(kernel=name, target=target, reason="its shapes are not known")
        signature = replace(signature, grid=grids[0])
        key = ("estimate", facts.file, name, len(part.blocks), signature_key(signature), target, request.options)
        found = cache.recall(key, part.blocks, facts.file, Estimate) if signature_key(signature) is not None else None
        if found is None:
            found, depends = _estimate(part, kernel, signature, request, cache)
            cache.keep(key, part.blocks, found, depends)
        return found
    return None


def _estimate(
    part: Part, kernel: KernelFunction, signature: Signature, request: EvaluationRequest, cache: EvaluationCache
) -> tuple[Estimate, frozenset[str]]:
    """Return the estimate, and the functions of the module that it depends on."""
    arch, name = request.arch, kernel.node.name
    budget = replace(request.budget, steps=min(request.budget.steps, request.steps))
    with part.module.shown():
        result = evaluate(
            part.module,
            name,
            signature,
            arch=arch,
            options=request.options,
            budget=budget,
            dialect=kernel.dialect,
            library=request.library,
            known_calls=cache.calls((arch.target, request.options, replace(budget, steps=0))),
        )
    plain = Estimate(
        kernel=name, target=arch.target, signature=f"{name}{signature}", arguments=arguments_text(signature)
    )
    try:
        found = _timed(part.module.file, result, plain)
    except NkiError as error:
        found = replace(plain, reason=_first_message(error.diagnostics))
    return found, outermost(result.called | {name})


def _timed(file: str, result: Evaluation, plain: Estimate) -> Estimate:
    """Return the estimate with the times of an evaluation's program, or with the reason why there are none."""
    program = result.program
    faults = [item for item in result.diagnostics if item.outcome == "fault"]
    if faults:
        return replace(plain, reason=f"{faults[0].code} stops it")
    if not result.complete:
        return replace(plain, reason="not all of it can be evaluated")
    if len(program) > MOST_INSTRUCTIONS:
        count = f"{len(program):,} instructions, of which an editor times {MOST_INSTRUCTIONS:,}"
        return replace(plain, reason=f"it has {count}: run nki_lab.profile")
    path = known_path(program) if program.registers else None
    if path is not None and not isinstance(path, Path):
        return replace(plain, reason=_first_message(path))
    if path is not None and path.trips.sum() > MOST_INSTRUCTIONS:
        return replace(plain, reason=f"its loops have {int(path.trips.sum()):,} iterations: run nki_lab.profile")
    line = made(program, path)
    full = [item for item in line.allocation.diagnostics if item.outcome == "fault"]
    if full:
        return replace(plain, reason=f"{full[0].code} stops it")
    summary, arch = line.summary, program.arch
    interval = summary.get("makespan_interval_ns")
    lines = digest(line.record()).lines
    return replace(
        plain,
        time=summary.makespan_ns,
        interval=None if interval is None else (interval[0], interval[1]),
        sbuf=(summary.sbuf_peak_bytes_per_partition, arch.sbuf_usable_bytes),
        psum=(summary.psum_peak_bytes_per_partition, arch.psum_partition_bytes),
        lines={item.line: item.busy / _PICOSECONDS for item in lines if item.file == file and item.busy},
    )


def _first_message(found: Sequence[object]) -> str:
    return str(getattr(found[0], "message", "")) if found else "it cannot be timed"
