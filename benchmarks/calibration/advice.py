"""Compare advice with published steps: what the next version of a kernel did, what it gained, and what advice says.

`benchmarks/steps.json` has the versions before each step, the published times of both, and the codes that name what
the version after it does. `python -m benchmarks.calibration.advice --kernels DIR` profiles the versions out of clones,
as the calibration does, and writes `benchmarks/advice.json`, which the page of the calibration shows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.calibration import clones, worker
from benchmarks.calibration.published import Kernel, load

STEPS = Path(__file__).parents[1] / "steps.json"
RESULTS = Path(__file__).parents[1] / "advice.json"
BUILD = Path(__file__).parents[2] / "build" / "calibration" / "kernels"

NIL = 0.05
"""Steps that gained less did nothing for the time: advice is to be silent about what they did, or to say as little."""
FACTOR = 1.5
"""Gains are to be within this factor."""

_GAIN = re.compile(r"would gain ([\d,]+) ns of ([\d,]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A published step of optimisation: the kernel before it, the times before and after it in nanoseconds, the codes
    that name what it did, `what` that was in words, and where the times are published."""

    id: str
    kernel: str
    target: str
    arguments: Mapping[str, Any]
    before_ns: float
    after_ns: float
    codes: Sequence[str]
    what: str
    source: str

    @property
    def gain(self) -> float:
        """The published gain as a share of the time before."""
        return 1 - self.after_ns / self.before_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What advice says of the version before a step: the gains of each code, as shares, the smallest first."""

    step: str
    gains: Mapping[str, Sequence[float]]
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether advice is right about a step, and the gains of the code that comes nearest; none where it is silent."""

    named: bool
    close: bool
    code: str = ""
    gains: Sequence[float] = ()


def steps(path: Path = STEPS) -> tuple[Mapping[str, Kernel], tuple[Step, ...]]:
    """Return the kernels and the steps of the data, with the kernels of the published figures."""
    data = json.loads(path.read_text())
    own = {entry["id"]: Kernel(**entry) for entry in data["kernels"]}
    return {**load().kernels, **own}, tuple(Step(**entry) for entry in data["steps"])


def judge(step: Step, answer: Answer) -> Verdict:
    """Return what the advice that names a step is worth: of a step without gain it is to be silent."""
    named = {code: answer.gains[code] for code in step.codes if code in answer.gains}
    if not named:
        return Verdict(named=False, close=step.gain < NIL)
    code = min(named, key=lambda name: _distance(step.gain, named[name]))
    if step.gain < NIL:
        return Verdict(named=True, close=named[code][0] < NIL, code=code, gains=named[code])
    return Verdict(named=True, close=_distance(step.gain, named[code]) <= FACTOR, code=code, gains=named[code])


def _distance(gain: float, said: Sequence[float]) -> float:
    """Return the factor between a gain and the nearest that is said, where several bound it."""
    nearest = min(max(gain, said[0]), said[-1])
    return max(gain, nearest) / max(min(gain, nearest), 1e-9)


def ask(kernel: Kernel, step: Step, kernels: Path) -> Answer:
    """Profile the version before a step."""
    import nki_lab

    try:
        folder, module = clones.place(kernel, kernels, BUILD)
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        function = getattr(importlib.import_module(module), kernel.function)
        arguments = {name: worker.argument(value, module) for name, value in step.arguments.items()}
        positions = [arguments.pop(name) for name in sorted(name for name in arguments if name.isdigit())]
        done = nki_lab.profile(function, *positions, target=step.target, launch_overhead=True, **arguments)
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is its answer
        return Answer(step=step.id, gains={}, failure=worker.described(error))
    gains: dict[str, list[float]] = {}
    for item in done.diagnostics:
        found = [int(part.replace(",", "")) for pair in _GAIN.findall(item.message) for part in pair]
        shares = [gain / whole for gain, whole in zip(found[::2], found[1::2], strict=True)]
        if shares:
            gains.setdefault(item.code, []).extend(round(share, 3) for share in shares)
    return Answer(step=step.id, gains={code: sorted(shares) for code, shares in gains.items()})


def table(answers: Iterable[Answer], known: Iterable[Step]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each step: what it did, its gain, the advice that names it, its gain, the verdict."""
    answered = {answer.step: answer for answer in answers}
    for step in known:
        answer = answered.get(step.id)
        if answer is None:
            continue
        found = judge(step, answer)
        said = (
            " to ".join(f"{100 * gain:.0f} %" for gain in sorted({found.gains[0], found.gains[-1]}))
            if found.gains
            else ""
        )
        nil = step.gain < NIL
        state = ("right" if found.close else "wrong") if nil or found.named else "not named"
        if found.named and not nil and not found.close:
            state = "named"
        yield (
            step.id,
            step.what,
            f"{100 * step.gain:.0f} %",
            "does not run" if answer.failure else found.code or "silent",
            said or "–",
            "–" if answer.failure else state,
        )


def counts(answers: Iterable[Answer], known: Iterable[Step]) -> tuple[int, int, int, int, int, int]:
    """Return (named, close, of), of steps with a gain, (right, of), of those without, and those that do not run."""
    answered = {answer.step: answer for answer in answers}
    pairs = [(step, answered[step.id]) for step in known if step.id in answered]
    run = [(step, judge(step, answer)) for step, answer in pairs if not answer.failure]
    gaining = [found for step, found in run if step.gain >= NIL]
    nil = [found for step, found in run if step.gain < NIL]
    named = [found for found in gaining if found.named]
    close = sum(found.close for found in named)
    return len(named), close, len(gaining), sum(found.close for found in nil), len(nil), len(pairs) - len(run)


def results(path: Path = RESULTS) -> tuple[Answer, ...]:
    """Return the answers that were written last; none without the file."""
    return tuple(Answer(**entry) for entry in json.loads(path.read_text())) if path.exists() else ()


def section() -> Iterator[str]:
    """Yield the part of the calibration's page about advice; nothing without results."""
    answers = results()
    if not answers:
        return
    _, known = steps()
    named, close, gaining, right, nil, failed = counts(answers, known)
    yield "## Advice"
    yield ""
    yield (
        f"Published steps of optimisation: what the next version of a kernel did, and whether advice (NKI7xx) on the "
        f"version before names it. Of {gaining} steps that gained 5 % or more it names {named}, {close} of them with a "
        f"gain within a factor of {FACTOR}; of {nil} that gained less it says nothing, or under 5 %, about {right}. "
        f"{failed} published versions do not run. Where advice gives two gains, for a part of the change and for all "
        f"of it, the published one counts as met between them. [steps.json](../benchmarks/steps.json) has the sources; "
        f"`python -m benchmarks.calibration.advice --kernels DIR` asks again."
    )
    yield ""
    yield "| step | what it did | published | advice | gain | |"
    yield "|-|-|-:|-|-:|-|"
    for row in table(answers, known):
        yield "| " + " | ".join(row) + " |"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernels", type=Path, required=True, metavar="DIR", help="the clones")
    parser.add_argument("--only", default="", metavar="STEPS", help="beginnings of steps, separated by commas")
    options = parser.parse_args()
    import nki_lab

    nki_lab.activate()
    kernels, known = steps()
    answers = {answer.step: answer for answer in results()}
    wanted = tuple(filter(None, options.only.split(",")))
    for step in known:
        if not wanted or step.id.startswith(wanted):
            answers[step.id] = answer = ask(kernels[step.kernel], step, options.kernels)
            print(step.id, f"{step.gain:.0%}", answer.failure[:100] or dict(answer.gains), file=sys.stderr, flush=True)
    kept = [answers[step.id] for step in known if step.id in answers]
    RESULTS.write_text("[\n" + ",\n".join(f" {json.dumps(asdict(answer))}" for answer in kept) + "\n]\n")
    for row in table(kept, known):
        print(" | ".join(row))


if __name__ == "__main__":
    main()
