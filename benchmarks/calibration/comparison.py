"""Lay the published figures beside the predicted ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.calibration.published import Figure, Published, Run

Row = dict[str, Any]
"""A published figure with its prediction; see `row_of`."""

TIME = "makespan_ns"


def rows_of(published: Published, answers: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return a row for each figure of the runs that were asked: what is published, predicted, and the roofline."""
    return [
        row_of(figure, published.runs[name], published, answer)
        for name, answer in answers.items()
        for figure in published.of_run[name]
        if not _said_as_time(figure, published)
    ]


def _said_as_time(figure: Figure, published: Published) -> bool:
    """Whether a figure is the share of an engine whose busy time is published too."""
    time = figure.metric.replace("_share.", "_ns.")
    return time != figure.metric and any(other.metric == time for other in published.of_run[figure.run])


def row_of(figure: Figure, run: Run, published: Published, answer: Mapping[str, Any]) -> Row:
    """Return one row; `predicted` is None where the run failed or the model says nothing about the metric.

    A share of time that an engine is busy is compared as the time, of the published makespan.
    """
    metric, value = figure.metric, figure.value
    name, _, engine = metric.partition(".")
    times = [other.value for other in published.of_run[run.id] if other.metric == TIME and other.kind != "ceiling"]
    if name == "engine_busy_share" and times:
        metric, value = f"engine_busy_ns.{engine}", value * times[0]
    row: Row = {
        "id": figure.id,
        "run": run.id,
        "family": run.family,
        "problem": run.problem,
        "tier": figure.tier,
        "kind": figure.kind,
        "dialect": published.kernels[run.kernel].dialect,
        "target": run.target,
        "cores": run.cores,
        "dtype": run.dtype,
        "metric": metric,
        "published": value,
        "predicted": None,
        "failure": answer.get("failure", ""),
        "note": "; ".join(filter(None, (run.note, figure.note))),
    }
    figures = answer.get("figures")
    if figures is None:
        return row
    row["predicted"] = predicted(metric, figures, run.dtype)
    row["share"] = value / times[0] if times and name.startswith("engine_busy") else None
    if metric == TIME:
        bound, time = roofline(figures)
        row |= {"roofline": time, "bound": bound}
        row |= {"components": figures, "seconds": answer["seconds"], "findings": answer["findings"]}
    return row


def predicted(metric: str, figures: Mapping[str, Any], dtype: str) -> float | None:
    """Return the predicted value of a metric, None where the model has none."""
    name, _, engine = metric.partition(".")
    busy = figures["engine_busy_ns"]
    if name == "engine_busy_ns":
        return float(busy.get(engine, 0.0)) / figures["cores"]
    if name == "engine_busy_share_of_core":
        return float(busy.get(engine, 0.0)) / (figures[TIME] - envelope(figures)) / figures["cores"]
    passes = _PASSES.get(dtype, 1)
    if name == "engine_instructions":
        count = figures.get(name, {}).get(engine, 0)
        # A product is a load of the stationary tile and a pass of the moving one.
        return float(count + (figures["matmuls"] * (2 * passes - 1) if engine == "tensor" else 0))
    if name == "matmul_passes":
        return float(figures["matmuls"] * passes)
    if name in ("hardware_flops", "hfu"):
        counted = figures["flops"] + figures.get("transpose_flops", 0) if name == "hardware_flops" else figures[name]
        return float(passes * counted)
    if name == "transpose_flops":
        return float(passes * figures.get(name, 0))
    value = figures.get(name)
    return float(value) if isinstance(value, int | float) else None


_PASSES = {"float32": 2}
"""How often profilers count a product by the dtype of its operands: tutorial_matmul's profiles show two pairs of
instructions for each product of float32, and the operations of NKIBench are twice those of its matmuls."""


def envelope(figures: Mapping[str, Any]) -> float:
    """Return the nanoseconds before the first instruction and after the last that the makespan contains."""
    inside = figures.get("without", {}).get("launch_overhead")
    return float(figures[TIME] - inside) if inside is not None else float(figures.get("launch_ns", 0.0))


def roofline(figures: Mapping[str, Any]) -> tuple[str, float]:
    """Return the busiest engine and the nanoseconds of the roofline: its time on one core, and the launch."""
    engine, busy = max(figures["engine_busy_ns"].items(), key=lambda item: item[1], default=("", 0.0))
    return engine, busy / figures["cores"] + envelope(figures)
