"""The options of a run, each with its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

COMPILER_STEPS: Final = ("loops", "fills", "sums", "casts", "engines", "repeats", "broadcasts", "spills", "order")
"""The modelled steps of the device compiler, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The approximations and limits of a run.

    Each field is a named choice; only the entry points read the environment.
    """

    matmul_order: Literal["slab", "tile", "free"] = "slab"
    """Order of float32 sums in matrix products.

    `tile` computes every nc_matmul by itself, in program order, with one thread: results are equal bit for bit from run
    to run on one machine. `slab` computes all tiles in one product for each 384 rows of the contraction, in the same K
    order; `free` lets the whole contraction be one product. Both stay within `numerics.slab.ULP_BOUND` of `tile`.
    Default: slab.
    """

    memory: Literal["virtual", "physical"] = "virtual"
    """Where tensors live while values are computed. `virtual` keeps each apart, except those that the user placed on
    one address. `physical` puts each at the address that the allocator gives it, so that one that is used after its
    bytes went to another is overwritten as on the chip; it is slower, and takes matrix products tile by tile. Values
    that the kernel looks at while it is traced are those of virtual memory. Default: virtual."""

    precise: bool = True
    """Round low-precision tiles onto their dtype's grid at each write. Default: True; False keeps bfloat16, tfloat32
    and 8-bit floats in float32 until the kernel's results are handed out (NKI_PRECISE_FP=0, and Beta 1 kernels)."""

    oob: Literal["error", "warn"] = "error"
    """What a run-time index outside of its tensor does under `oob_mode.error`. `error` ends the run (NKI310). `warn`
    reports it (NKI419) and goes on: rows that are read there hold unspecified values, NaN in floating-point tiles, and
    rows that are written there are dropped; for kernels that fetch rows which they mask afterwards. Default: error."""

    max_instructions: int = 50_000_000
    """Instructions a kernel may issue before it is refused as endless. Default: 50 million."""

    strict: bool = False
    """Refuse what the device compiler would reject instead of reporting it. Default: False."""

    slab_bytes: int = 256 * 2**20
    """Upper bound of the float32 result matrix of one slab. Default: 256 MiB."""

    replay_bytes: int = 256 * 2**20
    """What `Run.values` may keep: copies of the arguments, states of memory on the way, and answers. Where the
    arguments alone take more, values are not recorded. Default: 256 MiB."""

    replay_instructions: int = 64
    """How many instructions `Run.values` executes again at most for one answer about what was replayed before, as long
    as `replay_bytes` has room for a state of memory at such intervals; else twice, four times ... as many. Default:
    64: about a tenth of a second of flash attention."""

    bandwidth_sharing: bool = True
    """Let DMA queues compete for DMA engines, descriptor generators and HBM tensors. Default: True; False gives each
    queue all of them to itself, so that time never falls when work is added."""

    port_conflicts: bool = True
    """Let engines exclude each other from SBUF and PSUM (NeuronCore-v2) or a PSUM bank (later). Default: True."""

    table_loads: bool = True
    """Load the Scalar Engine's tables where the function set changes. Default: True."""

    stationary_reuse: bool = True
    """Skip loading a stationary tile that the Tensor Engine holds already. Default: True."""

    array_tiles: bool = True
    """Let matmuls on parts of the Tensor Engine's array that have nothing in common run side by side. Default: True."""

    power_ramp: bool = True
    """Start the Tensor Engine at half its rate after a pause, NeuronCore-v3 and later. Default: True."""

    launch_overhead: bool = False
    """Count the time before a kernel's first instruction and after its last. Default: False; published times of whole
    kernels include it."""

    compiler_model: str = "all"
    """The steps of the device compiler that times model: `all`, `none`, or names of `COMPILER_STEPS` separated by
    commas. A step applies to the kernels for which `kernel_runtime.backend` has evidence, today those of Beta 1. It
    changes when and where instructions run, never values. Default: all."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.compiler_model.split(",")) - {"all", "none", *COMPILER_STEPS})
        if unknown:
            raise ValueError(
                f"compiler_model names {', '.join(unknown)}; choose all, none, or {', '.join(COMPILER_STEPS)}"
            )
        choices = {
            "matmul_order": ("slab", "tile", "free"),
            "memory": ("virtual", "physical"),
            "oob": ("error", "warn"),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}; choose {', '.join(allowed[:-1])} or {allowed[-1]}")
        for name in ("max_instructions", "replay_instructions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")


def compiler_steps(options: Options) -> tuple[str, ...]:
    """Return the names of the steps that `Options.compiler_model` switches on."""
    named = options.compiler_model.split(",")
    return tuple(name for name in COMPILER_STEPS if "none" not in named and (name in named or "all" in named))


def option_names() -> tuple[str, ...]:
    """Return the names that `run`, `compile` and the command line accept."""
    return tuple(item.name for item in fields(Options))


def with_changes(options: Options, changes: Mapping[str, Any]) -> Options:
    """Return `options` with some fields replaced."""
    return replace(options, **{name: value for name, value in changes.items() if name in option_names()})


def changed(options: Options) -> dict[str, object]:
    """Return the options that are not at their defaults, by name."""
    default = Options()
    return {name: value for name, value in asdict(options).items() if value != getattr(default, name)}
