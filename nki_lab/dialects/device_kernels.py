"""Kernels of `nki.baremetal`, `nki.benchmark` and `nki.profile`: simulated, with a predicted latency and files.

A simulation does not vary, so that all executions of a benchmark are one prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from nki_lab import session
from nki_lab.diagnostic import coded_error
from nki_lab.dialects import launches
from nki_lab.dialects.annotation import TensorAnnotation
from nki_lab.dialects.artifacts import PREDICTED, Artifacts, text_of, untimed
from nki_lab.dialects.beta1_kernel import Beta1Kernel
from nki_lab.dialects.kernel import announce
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.kernel_runtime.options import Options

PERCENTILES: Final = (0, 1, 10, 25, 50, 90, 99, 100)
"""The percentiles that a benchmark has."""


@dataclass(frozen=True, slots=True)
class Latency:
    """The predicted time of a kernel on one NeuronCore, launch included, in microseconds: one number.

    `interval` are bounds that contain 80 % of the published times of such kernels around their predictions.
    """

    kernel: str
    target: str
    microseconds: float
    interval: tuple[float, float]

    def get_latency_percentile(self, percentile: int) -> float:
        """Return the latency in microseconds, the same for each of `PERCENTILES`; NKI012 for another percentile."""
        if percentile not in PERCENTILES:
            raise coded_error(
                "NKI012",
                f"get_latency_percentile({percentile!r})",
                operand="percentile",
                limit=f"one of {', '.join(map(str, PERCENTILES))}",
            )
        return self.microseconds

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.kernel} on {self.target}: {self.microseconds:,.2f} us with its launch, 80 % interval {low:,.2f} to "
            f"{high:,.2f} us; {PREDICTED}, the same for each percentile"
        )

    def __repr__(self) -> str:
        return f"<latency of {self}>"


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The result of a call of a benchmarked kernel: the latency on the device, predicted."""

    nc_latency: Latency

    def __str__(self) -> str:
        return str(self.nc_latency)

    def __repr__(self) -> str:
        return f"<benchmark of {self.nc_latency}>"


class DeviceKernel(Beta1Kernel):
    """A kernel of `nki.baremetal`: simulated, with the files that the options name."""

    entry: ClassVar[str] = "nki.baremetal"
    timed: ClassVar[bool] = False
    """Whether a call is timed although no file is asked for."""

    @cached_property
    def artifacts(self) -> Artifacts:
        """The files that a call writes."""
        return Artifacts(
            recording=text_of(self.keywords, "save_neff_name", self.entry),
            profile=text_of(self.keywords, "save_trace_name", self.entry),
            listing=text_of(self.keywords, "artifacts_dir", self.entry),
        )

    def check_options(self) -> None:
        """Check the keywords of the decorator: NKI012 for a value that its option does not take."""
        self.artifacts.places()

    def launch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], prepared: session.Launch | None = None) -> Any:
        """Run once, write what the options name, and give the results.

        Arguments that are only shapes (`nt.tensor[[128, 512], nl.float32]`) are timed and give no results. NKI021
        where a file cannot be written: known before the run where something else is in its place.
        """
        self.artifacts.require()
        shapes = tuple(_as_shape(item) for item in args)
        named = {name: _as_shape(item) for name, item in kwargs.items()}
        execution = self._once(shapes, named, prepared)
        self._finish(execution)
        if self.artifacts.wanted:
            for line in self.artifacts.write(self.__name__, execution):
                print(line)
        return execution.outputs

    def _once(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], prepared: session.Launch | None
    ) -> session.Execution:
        given = (*args, *kwargs.values())
        if launches.current_observer() is not None or not any(isinstance(item, TensorSpec) for item in given):
            return self.launched(args, kwargs, timed=self.timed or self.artifacts.wanted, prepared=prepared)
        launch = prepared or self.prepared()
        self._check_launch(launch.arch, args, kwargs)
        execution = session.profile(launch, args, kwargs)
        announce(item for item in execution.diagnostics if item.code not in self.quiet)
        return execution

    def _finish(self, execution: session.Execution) -> None:
        """Take the times of a call."""


class BenchmarkedKernel(DeviceKernel):
    """A kernel of `nki.benchmark`: a call runs it once, and leaves `benchmark_result`."""

    entry = "nki.benchmark"
    timed = True

    def check_options(self) -> None:
        """Check the keywords of the decorator; the numbers of executions have no effect: all take the same time."""
        super().check_options()
        _require_count(self, "warmup", 0)
        _require_count(self, "iters", 1)

    def prepared(self, target: str | Arch | None = None, options: Options | None = None) -> session.Launch:
        """The kernel as a session launches it: a latency, other than a profile, contains the launch."""
        launch = super().prepared(target, options)
        return launch if options else replace(launch, options=replace(launch.options, launch_overhead=True))

    def _finish(self, execution: session.Execution) -> None:
        self.__dict__["_result"] = result = None if execution.timeline is None else _latency_of(self, execution)
        self.__dict__.get("_plain", self).__dict__["_result"] = result
        if result is not None and launches.current_observer() is None:
            print(result)

    @property
    def benchmark_result(self) -> BenchmarkResult:
        """The latency of the last call, of this launch grid or else of the kernel; NKI023 before the first call."""
        plain = self.__dict__.get("_plain", self).__dict__
        if "_result" not in self.__dict__ and "_result" not in plain:
            raise coded_error(
                "NKI023",
                f"{self.__name__}.benchmark_result: the kernel has not been called",
                limit="a call leaves the latency",
                help=f"call {self.__name__} with arrays, or with shapes such as nt.tensor[[128, 512], nl.float32]",
            )
        result: BenchmarkResult | None = self.__dict__.get("_result", plain.get("_result"))
        if result is None:
            raise untimed(self.__name__)
        return result


class ProfiledKernel(DeviceKernel):
    """A kernel of `nki.profile`: a call runs it once, and writes into the working directory."""

    entry = "nki.profile"
    timed = True

    @cached_property
    def artifacts(self) -> Artifacts:
        """The files that a call writes: those of `nki.baremetal`, and a summary."""
        trace = text_of(self.keywords, "save_trace_name", self.entry) or "profile.ntff"
        return Artifacts(
            recording=text_of(self.keywords, "save_neff_name", self.entry) or "file.neff",
            profile=trace,
            report=trace,
            folder=self._working_directory(),
            overwrite=bool(self.keywords.get("overwrite", False)),
            executions=self._profiled_executions(),
        )

    def _profiled_executions(self) -> Sequence[int]:
        """Return the numbers of the executions with a profile: every `profile_nth`th of `num_execs`, or one."""
        every, last = (int(self.keywords.get(name, 1)) for name in ("profile_nth", "num_execs"))
        return range(every, max(every, last) + 1, every)

    def check_options(self) -> None:
        """Check the keywords of the decorator: NKI012 for a relative path.

        A call without a working directory is NKI003.
        """
        _require_count(self, "profile_nth", 1)
        _require_count(self, "num_execs", 1)
        if self.keywords.get("working_directory") is not None:
            super().check_options()

    def _working_directory(self) -> Path:
        folder = text_of(self.keywords, "working_directory", self.entry)
        if folder is None:
            raise coded_error(
                "NKI003",
                "nki.profile: argument working_directory is missing",
                operand="working_directory",
                limit="an absolute path, where the profile is written",
                help='write @nki.profile(working_directory=Path.home() / "profiles")',
            )
        if not Path(folder).is_absolute():
            raise coded_error(
                "NKI012",
                f"nki.profile: working_directory is {folder!r}",
                operand="working_directory",
                limit="an absolute path",
                help=f"write {str(Path(folder).absolute())!r}",
            )
        return Path(folder)


def _latency_of(kernel: DeviceKernel, execution: session.Execution) -> BenchmarkResult:
    assert execution.timeline is not None
    summary = execution.timeline.summary
    low, high = summary.makespan_interval_ns
    target = execution.program.arch.target
    return BenchmarkResult(Latency(kernel.__name__, target, summary.makespan_ns / 1e3, (low / 1e3, high / 1e3)))


def _as_shape(value: Any) -> Any:
    return spec(value.shape, value.dtype) if isinstance(value, TensorAnnotation) else value


def _require_count(kernel: DeviceKernel, name: str, least: int) -> None:
    value = kernel.keywords.get(name, least)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise coded_error(
            "NKI012",
            f"{kernel.entry}: {name} is {value!r}",
            operand=name,
            limit=f"{name} is a whole number, {least} or more",
        )
