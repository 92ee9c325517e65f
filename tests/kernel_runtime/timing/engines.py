"""DMA engines and the power ramp by themselves, as the tests of time drive them."""

from __future__ import annotations

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.timing.dma import NEVER, UNITS, hbm_rate, next_end
from nki_lab.kernel_runtime.timing.locks import ramp_of, stretched


class DmaEngines:
    """Transfers under way, each in a queue of its own: its engines are bits, its work picoseconds at the full rate."""

    def __init__(self, sharing: bool, limit: int = 0) -> None:
        self.sharing, self.limit = sharing, limit if sharing else 0
        self.now, self.ends, self.next = 0, NEVER, -1
        self.active: list[int] = []
        self.left: list[int] = []
        self.share: list[int] = []
        self.masks: list[int] = []
        self.rates: list[int] = []

    def add(self, engines: int, work: int, hbm_bytes: int, time: int) -> None:
        """Data of a transfer starts. Times never go back."""
        self._advance(time)
        self.active.append(len(self.left))
        self.left.append(work * UNITS)
        self.share.append(UNITS)
        self.masks.append(engines)
        self.rates.append(hbm_rate(hbm_bytes, work))
        self._share()

    def finish(self) -> tuple[int, int]:
        """Take out the transfer that ends next: its number and its end."""
        number, time = self.next, self.ends
        self._advance(time)
        self.active.remove(number)
        self._share()
        return number, time

    def _advance(self, time: int) -> None:
        for number in self.active:
            self.left[number] -= (time - self.now) * self.share[number]
        self.now = time

    def _share(self) -> None:
        bits = max([mask.bit_length() for mask in self.masks], default=0)
        self.ends, self.next = next_end(
            self.active, self.left, self.share, self.masks, self.rates, bits, self.sharing, self.limit, self.now
        )


class PowerRamp:
    """The Tensor Engine's rate by itself."""

    def __init__(self, arch: Arch) -> None:
        self.state = ramp_of(arch)

    def stretched(self, start: int, work: int) -> int:
        """Return how long `work` takes from `start` on."""
        return stretched(self.state, 0, start, work)
