"""The fit of constants, with times that a formula makes."""

from __future__ import annotations

import random

import pytest

from benchmarks.calibration import fit
from nki_lab.isa.arch import GENERATIONS, arch_of

TRIED = {"start": range(0, 50, 5), "rate": (1.0, 2.0, 3.0)}


def samples(noise: float, start: float = 20.0, rate: float = 2.0) -> tuple[list[fit.Sample], fit.Predict]:
    source = random.Random(1)
    sizes = [source.uniform(10, 200) for _ in range(60)]
    published = [(start + rate * size) * (1 + noise * source.uniform(-1, 1)) for size in sizes]
    rows = [fit.Sample(family="abc"[place % 3], published=time) for place, time in enumerate(published)]
    return rows, lambda values: [values["start"] + values["rate"] * size for size in sizes]


@pytest.mark.parametrize("begin", [{"start": 0.0, "rate": 1.0}, {"start": 45.0, "rate": 3.0}])
def test_the_constants_that_made_the_times_are_found(begin: dict[str, float]) -> None:
    rows, predict = samples(noise=0)
    result = fit.fit(rows, predict, TRIED, begin, draws=5)
    assert [(item.value, item.low, item.high) for item in result.constants] == [(20, 20, 20), (2, 2, 2)]
    assert result.error == 0 < result.declared_error
    assert result.left_out == {"a": 0, "b": 0, "c": 0}


def test_noise_widens_the_interval_around_the_value() -> None:
    rows, predict = samples(noise=0.3)
    start = fit.fit(rows, predict, TRIED, {"start": 0.0, "rate": 2.0}, draws=20).constants[0]
    assert start.low <= start.value <= start.high
    assert start.low < start.high


def test_a_family_is_judged_with_constants_of_the_others() -> None:
    rows, predict = samples(noise=0)
    odd = [fit.Sample(family="odd", published=2 * row.published) if row.family == "c" else row for row in rows]
    result = fit.fit(odd, predict, TRIED, {"start": 20.0, "rate": 2.0}, draws=0)
    assert result.left_out["odd"] == pytest.approx(0.5)


def test_the_search_asks_for_no_value_twice() -> None:
    asked: list[tuple[float, ...]] = []

    def loss(values: fit.Values) -> float:
        asked.append(tuple(values.values()))
        return (values["start"] - 30) ** 2 + (values["rate"] - 3) ** 2

    assert fit.search({"start": 0.0, "rate": 1.0}, TRIED, loss) == {"start": 30, "rate": 3}
    assert len(asked) == len(set(asked))


def test_only_declared_constants_are_rewritten() -> None:
    text = "    | _guess(other, a=1.0)\n    | _fitted(\n        'a=2.0', (1, 2),\n        a=3.0,\n    )\n    | _fitted(x, b=4.0)"
    assert fit.rewritten(text, {"b": 5}) == text.replace("b=4.0", "b=5.0")
    with pytest.raises(KeyError, match="declared 0 times"):
        fit.rewritten(text, {"c": 1})


def test_the_source_declares_what_is_fitted_once() -> None:
    text = fit.SOURCE.read_text()
    values = {name: fact.value for arch in GENERATIONS.values() for name, fact in arch.facts.items() if fact.fit}
    assert values
    assert fit.rewritten(text, values) == text


def test_constants_are_what_they_were_afterwards() -> None:
    arch = arch_of("trn2")
    before = arch.launch_ns, arch.facts
    with fit.constants(arch, {"launch_ns": 1.5}):
        assert (arch.launch_ns, arch.fact("launch_ns").value) == (1.5, 1.5)
    assert (arch.launch_ns, arch.facts) == before
