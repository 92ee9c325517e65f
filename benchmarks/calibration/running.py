"""Run the workers, a few at a time, and keep their answers by the hash of everything that determines them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import nki_lab
from benchmarks.calibration import clones
from benchmarks.calibration.published import Kernel, Published, Run

PACKAGE = Path(nki_lab.__file__).parent
ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "calibration"
# What determines a prediction: everything from the declarations to the summary.
SOURCES = ("diagnostic.py", "isa", "source", "kernel_runtime", "timeline", "session", "dialects", "result", "rules")
_PLACING = Lock()
ENDED = "the worker ended with"
OPTIONS: Mapping[str, Any] = {"launch_overhead": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may take: seconds of a processor, bytes of memory; `jobs` workers run at the same time."""

    seconds: int = 600
    memory: int = 6 * 2**30
    jobs: int = 2


def source_hash(names: Iterable[str] = SOURCES, package: Path = PACKAGE) -> str:
    """Return the hash of the Python sources of these files and folders of the package."""
    total = hashlib.sha256()
    for name in names:
        top = package / name
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top] if top.exists() else []:
            total.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def predict(
    published: Published,
    kernels: Path,
    *,
    only: Iterable[str] | None = None,
    limits: Limits | None = None,
    options: Mapping[str, Any] = OPTIONS,
    fresh: bool = False,
    mechanisms: Iterable[str] = (),
    progress: bool = True,
) -> dict[str, dict[str, Any]]:
    """Return for each run what its worker answered: `figures`, `findings` and `seconds`, or a `failure`.

    Answers stand below `build/calibration` and are used again while kernel, call, options and sources are the same,
    unless `fresh`. Runs in `mechanisms` are walked again with each mechanism switched off.
    """
    deep = frozenset(mechanisms)
    limits = limits or Limits()
    chosen = list(published.runs) if only is None else list(only)
    version = source_hash()
    answers: dict[str, dict[str, Any]] = {}
    waiting: dict[str, list[Run]] = {}
    for name in chosen:
        run = published.runs[name]
        kept = _answer_path(run, published.kernels[run.kernel], version, options, name in deep)
        if kept.exists() and not fresh:
            answers[name] = json.loads(kept.read_text())
        else:
            waiting.setdefault(run.kernel, []).append(run)

    def work(kernel: Kernel, runs: list[Run]) -> None:
        for name, answer in _ask(kernel, runs, kernels, limits, options, deep):
            answers[name] = answer
            if not answer.get("failure", "").startswith(ENDED):  # by a lack of memory, perhaps for another's sake
                kept = _answer_path(published.runs[name], kernel, version, options, name in deep)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(answer))
            if progress:
                print(name, answer.get("failure") or f"{answer['figures']['makespan_ns'] / 1e3:.1f} us, "
                      f"{answer['seconds']} s", file=sys.stderr, flush=True)  # fmt: skip

    with ThreadPoolExecutor(limits.jobs) as pool:
        # The kernels with most runs first, in parts, so that no worker is left alone with a long list.
        parts = [
            (published.kernels[name], runs[start :: max(1, len(runs) // 8)])
            for name, runs in sorted(waiting.items(), key=lambda item: -len(item[1]))
            for start in range(max(1, len(runs) // 8))
        ]
        for done in [pool.submit(work, kernel, part) for kernel, part in parts]:
            done.result()
    return {name: answers[name] for name in chosen}


def _answer_path(run: Run, kernel: Kernel, version: str, options: Mapping[str, Any], deep: bool) -> Path:
    said = {key: value for key, value in asdict(run).items() if key not in ("note", "family", "problem")}
    text = json.dumps([said, asdict(kernel), version, dict(options), deep], sort_keys=True)
    return BUILD / "answers" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _ask(
    kernel: Kernel,
    runs: list[Run],
    kernels: Path,
    limits: Limits,
    options: Mapping[str, Any],
    deep: frozenset[str],
) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the answer of each run; a worker that dies is replaced for the runs behind the one that killed it."""
    try:
        with _PLACING:
            folder, module = clones.place(kernel, kernels, BUILD / "kernels")
    except clones.MissingKernelError as error:
        for run in runs:
            yield run.id, {"failure": str(error)}
        return
    left = list(runs)
    while left:
        job = {
            "folder": str(folder),
            "module": module,
            "function": kernel.function,
            "stubs": list(kernel.stubs),
            "seconds": limits.seconds,
            "bytes": limits.memory,
            "options": dict(options),
            "runs": [{**asdict(run), "mechanisms": run.id in deep} for run in left],
        }
        paths = [str(PACKAGE.parent), str(ROOT), os.environ.get("PYTHONPATH", "")]
        worker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.calibration.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        try:
            out, errors = worker.communicate(json.dumps(job), timeout=4 * (limits.seconds + 60) * len(left))
        except subprocess.TimeoutExpired:
            worker.kill()
            out, errors = worker.communicate()
        begun = ""
        for line in out.splitlines():
            answer = json.loads(line)
            if "begin" in answer:
                begun = answer["begin"]
                continue
            name = answer.pop("id")
            yield name, answer
            left = [run for run in left if run.id != name]
        if left:
            last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
            if begun != left[0].id:
                for run in left:
                    yield run.id, {"failure": f"{ENDED} {worker.returncode}: {last}"}
                return
            yield begun, {"failure": f"{ENDED} {worker.returncode}: {last}"}
            left = left[1:]
