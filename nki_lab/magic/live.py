"""The view of a cell's run while it runs: it appears when a run takes longer, and gives its place to the result."""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display as draw

from nki_lab import widgets
from nki_lab.kernel_runtime.progress import Monitor, followed_by
from nki_lab.magic.display import Bundle, publish
from nki_lab.timeline.growth import Growth
from nki_lab.timeline.timeline import Timeline

if TYPE_CHECKING:
    from nki_lab.widgets.live import LiveVisualizer, State

PATIENCE: Final = 0.3
"""Seconds of a run before its view appears: the results of shorter ones appear at once."""
_EVERY: Final = 0.2
"""Seconds between two updates."""
_ROW: Final = 6e-6
"""Seconds of processor that an instruction takes to be sent, and its tables to be made early."""
_TIMES: Final = 100
"""The processor time of the run between two updates, over that of an update."""
_LONGEST: Final = 2.0
"""Seconds between two updates, at most."""
_SHARE: Final = 0.015
"""The share of a run's seconds that its recording may take."""
_ENOUGH: Final = 0.01
"""The share of a phase from which its end can be told."""
_WIDGET: Final = "application/vnd.jupyter.widget-view+json"
_NOTHING: Final[dict[str, Any]] = {"text/plain": "", "text/html": ""}


class Pace:
    """How fast a phase goes, from what a monitor says of it."""

    def __init__(self) -> None:
        self._phase: tuple[object, float] | None = None
        self._since = 0.0
        self._done = 0

    def of(self, monitor: Monitor, now: float) -> tuple[float | None, float | None]:
        """Return the instructions done in a second, and the seconds left; None where they are unknown."""
        key = (monitor.phase, monitor.started)
        done, total = monitor.done, monitor.total
        if key != self._phase or done < self._done or not done:  # a phase may have several passes
            self._phase, self._since = key, now
        self._done = done
        took = now - self._since
        if done <= 0 or took < _EVERY:
            return None, None
        rate = done / took
        is_known = total is not None and done >= _ENOUGH * total
        return rate, max(0.0, (total - done) / rate) if is_known and total is not None else None


class LiveView:
    """The view of the runs of one cell, as long as the cell runs. `monitor` hears of them.

    A thread of its own looks at the monitor some times a second: the run itself does not even notice.
    """

    def __init__(self, shell: InteractiveShell, *, wanted: bool = True) -> None:
        self.monitor = Monitor()
        self.handle = ""
        """The identity of what is displayed; "" before anything is."""
        self._shell = shell
        self._wanted = wanted and getattr(shell, "kernel", None) is not None
        self._over = threading.Event()
        self._widget: LiveVisualizer | None = None
        self._thread: threading.Thread | None = None
        self._pace = Pace()
        self._growth = Growth()
        self._recorded: object = None
        self._run = self._processor = 0.0  # when the run began, and the processor time when it was first looked at
        self._stopped = 0.0  # when the run began that the page asked to stop

    def __enter__(self) -> Self:
        if self._wanted:
            # What is displayed belongs to this cell, whose number the thread knows from its context.
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._follow,), daemon=True, name="nki_lab live")
            self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Hear of the runs in this thread while this lasts."""
        with followed_by(self.monitor if self._wanted else None):
            yield

    @contextlib.contextmanager
    def checking(self, name: str, target: str) -> Iterator[None]:
        """Show that the cell is checked while this lasts."""
        self.monitor.open(name, target)
        self.monitor.begin("checking")
        try:
            with self.followed():
                yield
        finally:
            self.monitor.leave()

    def say_cancelled(self, executed: int | None = None) -> None:
        """Say in the view that the run was stopped, before what was done until then is drawn.

        `executed` is the number of instructions that were, where it is known: the last look was some time before.
        """
        self.stop()
        if self._widget is None:
            return
        last = self._widget.live
        if executed is not None:
            elapsed = round(time.perf_counter() - self.monitor.started, 2)
            last = {**last, "done": executed, "elapsed": elapsed, "rate": None}
            if not self._widget.draws:
                self._grow(self._widget)
            elif isinstance(self._recorded, Timeline):
                last["until"] = self._recorded.executed_until(executed)
        self._widget.tell({**last, "state": "cancelled"})

    def stop(self) -> None:
        """Follow the runs no longer; what is displayed stays as it is."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def keeps(self) -> bool:
        """Whether the view shows what a run that was stopped had worked out."""
        return self._widget is not None and bool(self.handle) and (self._widget.draws or bool(self._widget.growth))

    def leave(self, text: str) -> None:
        """Leave the view below the cell; `text` stands for it where there are no widgets."""
        self.stop()
        if self._widget is not None:
            draw(_bundle(self._widget, text), raw=True, display_id=self.handle, update=True)

    def replace(self, data: dict[str, Any], metadata: dict[str, Any] | None = None) -> bool:
        """Display something else in place of the view; False if there is none."""
        self.stop()
        if not self.handle:
            return False
        if _WIDGET in data:
            # JupyterLab draws the next widget into the place of the one before and hides that place when the former is
            # closed. A text in between makes the place another one.
            draw(_NOTHING, raw=True, display_id=self.handle, update=True)
        draw(data, metadata=metadata or {}, raw=True, display_id=self.handle, update=True)
        self.handle = ""
        self._close()
        return True

    def publish(self, shown: Bundle | None) -> None:
        """Display a bundle in place of the view, where there is one, else below the cell."""
        if shown is not None and not self.replace(dict(shown)):
            publish(shown)

    def clear(self) -> None:
        """Take the view away, if there is one."""
        self.replace(_NOTHING)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        # Without the packages there is no view, and a page that is gone cannot be told: the run goes on.
        with contextlib.suppress(Exception):
            due, latest = 0.0, 0.0
            while not self._over.wait(_EVERY):
                if time.process_time() < due and time.monotonic() < latest:
                    continue
                before = time.thread_time()
                self._look()
                due = time.process_time() + _TIMES * (time.thread_time() - before)
                latest = time.monotonic() + _LONGEST

    def _look(self) -> None:
        monitor, now = self.monitor, time.perf_counter()
        if monitor.phase is None or now - monitor.started < PATIENCE:
            return
        if self._widget is None:
            self._widget = widgets.view_of_running(self._cancel)
            self._tell(now)
            handle = f"nki-lab-{id(self):x}-{time.monotonic_ns():x}"
            name = f"{monitor.kernel} on {monitor.target}" if monitor.target else monitor.kernel
            draw(_bundle(self._widget, f"{name} is running"), raw=True, display_id=handle)
            self.handle = handle
        else:
            self._tell(now)
        if self._record(now):
            self._tell(now)  # how much of the recording is done
        elif monitor.subject is not self._recorded:
            self._grow(self._widget)
        self._widget.push()

    def _grow(self, widget: LiveVisualizer) -> None:
        """Show what is known of the run as long as there is no recording of it."""
        grown = self._growth.look(self.monitor.subject)
        if grown is not None:
            widget.grow(grown)

    def _tell(self, now: float) -> None:
        assert self._widget is not None  # made before
        monitor = self.monitor
        rate, left = self._pace.of(monitor, now)
        state: State = "cancelling" if self._stopped == monitor.started else "running"
        self._widget.tell(
            {
                "state": state,
                "kernel": monitor.kernel,
                "target": monitor.target,
                "phase": monitor.phase or "",
                "done": monitor.done,
                "total": monitor.total,
                "elapsed": round(now - monitor.started, 2),
                "left": None if left is None else round(left, 1),
                "rate": None if rate is None else round(rate, 1),
                "until": self._until(monitor),
            }
        )

    def _until(self, monitor: Monitor) -> int | None:
        """Return the picoseconds of the recording up to which the values are computed."""
        line = self._recorded
        if not isinstance(line, Timeline) or line is not monitor.subject:
            return None
        return line.executed_until(monitor.done if monitor.phase == "numerics" else 0)

    def _record(self, now: float) -> bool:
        """Make the recording of a run whose values take so long that nobody notices; return whether it was made."""
        monitor = self.monitor
        line = monitor.subject
        if line is self._recorded or not isinstance(line, Timeline) or monitor.phase != "numerics":
            return False
        if self._run != monitor.started:
            self._run, self._processor = monitor.started, time.process_time()
        took = now - monitor.started
        left = self._pace.of(monitor, now)[1] or 0.0
        if _ROW * len(line.program) > _SHARE * (time.process_time() - self._processor) * (took + left) / took:
            return False
        self._recorded = line
        assert self._widget is not None  # made before
        self._widget.show(line.record_early())
        return True

    def _cancel(self) -> None:
        """Stop the run: the page asked for it."""
        if not self._over.is_set() and threading.current_thread() is not threading.main_thread():
            self._stopped = self.monitor.started
            _thread.interrupt_main()

    def _close(self) -> None:
        if self._widget is not None:
            with contextlib.suppress(Exception):  # a page that is gone cannot be told
                self._widget.close()
            self._widget = None


def _bundle(widget: LiveVisualizer, text: str) -> dict[str, Any]:
    """Return the MIME bundle of the view; where there are no widgets it is a text."""
    found = widget._repr_mimebundle_()
    data = found[0] if isinstance(found, tuple) else found
    return {**(data or {}), "text/plain": text}
