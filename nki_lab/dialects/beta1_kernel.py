"""The kernel object of the Beta 1 dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nki_lab.diagnostic import NkiError
from nki_lab.dialects import launches
from nki_lab.dialects.annotation import check_shapes
from nki_lab.dialects.kernel import Kernel
from nki_lab.dialects.tracebacks import user_frames
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime import beta1
from nki_lab.kernel_runtime.issue.context import local


class Beta1Kernel(Kernel):
    """A Beta 1 kernel. `kernel[4, 2]` runs its instances one after the other; arguments that it stores to change."""

    dialect = "beta1"
    # Masks leave tiles partly written by design; block dimensions and results by reference are how Beta 1 was written.
    quiet = frozenset({"NKI302", "NKI333", "NKI334"})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the simulator, or, inside a kernel, as a part of it; with `mode="simulation"` as `simulate_kernel`."""
        if local.builder is None and self.keywords.get("mode") == "simulation":
            return self.simulate(args, kwargs)
        return super().__call__(*args, **kwargs)

    def simulate(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run on the simulator, write no files, and give the results.

        A run-time index outside of its tensor raises IndexError itself, with the text of NumPy, since tests of Beta 1
        kernels compare both; the NkiError is its cause. A notebook cell gets the NkiError.
        """
        try:
            with user_frames:
                return Beta1Kernel.launch(self, args, kwargs)
        except NkiError as error:
            found = error.diagnostics[0]
            if found.code != "NKI310" or found.measured is None or launches.is_interactive():
                raise
            index, size = found.measured
            raise IndexError(f"index {index} is out of bounds for axis 0 with size {size}") from error

    def grid_of(self, key: Any) -> tuple[int, ...]:
        """The sizes of the launch grid's axes: integers, `nl.nc(n)` and `nl.spmd_dim(a, b)`."""
        return beta1.grid_sizes(key)

    def check_grid(self, arch: Arch) -> None:
        """Every grid is one: its instances run one after the other."""

    def _check_launch(self, arch: Arch, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        check_shapes(self.function, args, kwargs)
