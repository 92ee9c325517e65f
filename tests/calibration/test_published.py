"""The published data: complete, in plain units, each figure with a source, and no kernel without a hash."""

from __future__ import annotations

import re

import pytest

from benchmarks.calibration.published import Published, load
from benchmarks.calibration.worker import TENSOR
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import dtype_of


@pytest.fixture(scope="module")
def published() -> Published:
    return load()


def test_every_kernel_is_pinned_by_commit_and_hash(published: Published) -> None:
    for kernel in published.kernels.values():
        assert re.fullmatch(r"[0-9a-f]{40}", kernel.commit), kernel.id
        assert re.fullmatch(r"[0-9a-f]{64}", kernel.sha256), kernel.id
        assert kernel.repository in published.repositories
        assert (kernel.form == "package") == bool(kernel.root), kernel.id
        assert kernel.form in ("module", "listing", "fragment", "package")
        assert kernel.dialect in ("beta1", "current")


def test_every_run_has_a_kernel_a_target_and_figures(published: Published) -> None:
    for run in published.runs.values():
        assert run.kernel in published.kernels
        assert arch_of(run.target)
        assert run.cores in (1, 2)
        assert published.of_run[run.id], run.id


def test_tensors_of_arguments_have_a_dtype_and_a_shape(published: Published) -> None:
    for run in published.runs.values():
        for value in run.arguments.values():
            if isinstance(value, dict) and "tensor" in value:
                found = TENSOR.fullmatch(value["tensor"])
                assert found, value
                assert dtype_of(found[1])


def test_every_figure_has_a_source_and_a_positive_value(published: Published) -> None:
    assert len({figure.id for figure in published.figures}) == len(published.figures)
    for figure in published.figures:
        assert figure.source, figure.id
        assert figure.value > 0, figure.id
        assert figure.run in published.runs if figure.run else figure.subject, figure.id
        assert figure.kind in ("measured", "recorded", "rounded", "ceiling", "copied")
        if re.search(r"share|utilisation|hfu|mfu|mbu", figure.metric):
            assert figure.value <= 1, figure.id


def test_times_are_in_nanoseconds(published: Published) -> None:
    """No published kernel is shorter than a launch of some microseconds, or longer than a second."""
    for figure in published.figures:
        if figure.metric == "makespan_ns":
            assert 1e4 < figure.value < 1e9, figure.id
