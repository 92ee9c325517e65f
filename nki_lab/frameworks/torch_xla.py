"""The shim of `torch_xla`: one device, the CPU. Operations are done when they are called, so that steps end at once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nki_lab.frameworks.entries import Entries


def device(index: int | None = None) -> Any:
    """Return the device of XLA tensors: `torch.device("cpu")`, whatever the index."""
    import torch

    return torch.device("cpu")


def devices() -> list[Any]:
    """Return the devices of this process: one."""
    return [device()]


def device_count() -> int:
    """Return the number of devices: 1."""
    return 1


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """End a step. Operations are never pending here: nothing remains to do."""


@contextlib.contextmanager
def step() -> Iterator[None]:
    """Bracket a step of training."""
    yield


def manual_seed(seed: int, device: Any = None) -> None:
    """Seed the random numbers of the device."""
    import torch

    torch.manual_seed(seed)


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """Return the device of XLA tensors: `torch.device("cpu")`."""
    return device(n)


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str]:
    """Return the names of the devices: one."""
    return [str(device())]


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """End a step. Operations are never pending here: nothing remains to do."""


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Wait for the device: it is never busy between calls."""


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = (), run_async: bool = False) -> None:
    """Call `closure` with `args`: steps end at once."""
    closure(*args)


def optimizer_step(
    optimizer: Any, barrier: bool = False, optimizer_args: Mapping[str, Any] | None = None, **_reduction: Any
) -> Any:
    """Step the optimizer and return what it returns; gradients of one device need no reduction."""
    return optimizer.step(**(optimizer_args or {}))


def master_print(*args: Any, fd: Any = None, local: bool = False, flush: bool = False) -> None:
    """Print on the first process, which this one is."""
    print(*args, file=fd or sys.stdout, flush=flush)


def is_master_ordinal(local: bool = True) -> bool:
    """Return whether this process is the first one: it is the only one."""
    return True


def get_ordinal(defval: int = 0) -> int:
    """Return the number of this process: 0."""
    return 0


def process_count(defval: int = 1) -> int:
    """Return the number of processes: 1."""
    return 1


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Meet the other processes, of which there are none; return the payloads of all."""
    return [payload]


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """Return `reduce_fn` of the data of all processes: of this one's."""
    return reduce_fn([data])


def get_rng_state(device: Any = None) -> int:
    """Return a number from which `set_rng_state` repeats the random numbers that follow now."""
    import torch

    seed = int(torch.randint(2**31 - 1, ()).item())
    torch.manual_seed(seed)
    return seed


def set_rng_state(seed: int, device: Any = None) -> None:
    """Continue with the random numbers that followed the `get_rng_state` which returned `seed`."""
    manual_seed(seed)


def modules(_entries: Entries) -> dict[str, dict[str, Any]]:
    """Return the names of each module."""
    root = (device, devices, device_count, sync, step, manual_seed)
    model = (
        xla_device, get_xla_supported_devices, mark_step, wait_device_ops, add_step_closure, optimizer_step,
        master_print, is_master_ordinal, get_ordinal, rendezvous, mesh_reduce, get_rng_state, set_rng_state,
    )  # fmt: skip
    return {
        "torch_xla": {item.__name__: item for item in root},
        "torch_xla.core": {},
        "torch_xla.core.xla_model": {item.__name__: item for item in model} | {"xrt_world_size": process_count},
    }
