"""The entry point of notebooks: `%load_ext nki_lab`, then cells that start with `%%nki`."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import re
import types
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Final, cast
from weakref import WeakSet

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments
from IPython.utils.process import arg_split

from nki_lab.call_records.choices import choices
from nki_lab.call_records.recorder import recorder
from nki_lab.diagnostic import Diagnostic, NkiError, coded_error
from nki_lab.dialects import activate
from nki_lab.dialects.environment import chosen
from nki_lab.dialects.kernel import Kernel
from nki_lab.dialects.launches import observed_by
from nki_lab.export.findings import counts
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.source_location import is_ours
from nki_lab.magic import cell as cells
from nki_lab.magic import display, notebook_context
from nki_lab.magic.checked import checked
from nki_lab.magic.companion import start
from nki_lab.magic.compared import EarlierRuns, compared, on_targets
from nki_lab.magic.live import LiveView
from nki_lab.magic.results import Results
from nki_lab.magic.runs import TABS, Runs
from nki_lab.own_faults import OWN_FAULT
from nki_lab.result import Run
from nki_lab.result.inputs import maker
from nki_lab.result.notebook import Beside
from nki_lab.session.outcome import INTERRUPTED
from nki_lab.source.callables import traceback_steps

# Findings about the check itself; the run that follows has no such limits.
_OF_THE_CHECK: Final = frozenset({"NKI120", "NKI121", "NKI122", "NKI124"})

_LARGE: Final = 50_000
"""Instructions from which on a run that was stopped is left as it was drawn: nobody waits for its picture then."""

Judge = Callable[[], list[Diagnostic]]
"""Checks a cell whose kernels did not all run."""


def _arguments(line: str) -> Namespace:
    """Return the options of a magic's line; NKI002 for an option that there is not."""
    __tracebackhide__ = True
    parser = NkiMagics.nki.parser
    try:
        words = arg_split(line)
    except ValueError as error:  # IPython splits as a shell does
        help_ = "close the quotes, or put others around it"
        raise coded_error("NKI002", f"{line}: {error}", operand="%%nki", help=help_) from None
    given, unknown = parser.parse_known_args(words)
    if unknown:
        options = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
        near = did_you_mean(unknown[0].partition("=")[0], options)
        listed = f"options: {', '.join(options)}"
        raise coded_error("NKI002", f"%%nki has no option {unknown[0]}", operand="%%nki", help=near or listed)
    for action in parser._actions:
        value = getattr(given, action.dest, None)
        if isinstance(value, str):
            value = _unquoted(value)
            setattr(given, action.dest, value)
            if not value:
                option = action.option_strings[0]
                raise coded_error("NKI002", f"{option} is empty", operand="%%nki", help=f"{option}: {action.help}")
    return cast("Namespace", given)


def _unquoted(word: str) -> str:
    """Return a word without the quotes that keep it together in the magic's line."""
    quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return word[1:-1] if quoted else word


@magics_class
class NkiMagics(Magics):
    """The cell magic `%%nki`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._earlier = EarlierRuns()
        self._results = Results(shell)

    @output_can_be_silenced
    @magic_arguments("%nki")
    @argument("--target", help="trn1, trn2 or trn3; without it the environment, the configuration, or trn3 decides")
    @argument("--check-only", action="store_true", help="check the cell and run nothing")
    @argument("--no-check", action="store_true", help="run without checking first; the run itself checks all the same")
    @argument("--strict", action="store_true", help="refuse what the device compiler would reject")
    @argument("--no-view", action="store_true", help="a line for each run in place of the visualizer")
    @argument("--save", metavar="DIR", help="save the recording of the last run, for nki_lab.open")
    @argument(
        "--inputs",
        metavar="KIND",
        help="values for arguments given as nki_lab.spec(...), for example "
        "randn(seed=0); without it such calls are timed and compute nothing",
    )
    @argument(
        "--check-against",
        metavar="EXPRESSION",
        help="compare the results of the last run with an array, a list of them, or a function of its arguments",
    )
    @argument(
        "--compare",
        metavar="RUN",
        help="compare the last run with an earlier one: last for that of the same kernel before it, a variable with a "
        "run, or the folder of a saved run",
    )
    @argument(
        "--targets",
        metavar="NAMES",
        help="time the last run's call on several targets, trn1,trn2,trn3, and show a table",
    )
    @cell_magic
    def nki(self, line: str, cell: str) -> object:
        """Check, run and draw a cell with kernels and calls of kernels.

        The cell is checked first: findings appear below it, and a cell with a fault does not run. Then it runs like any
        other; each call of a kernel in it is a run, by plain call, nki.simulate, nki_lab.run or nki_lab.profile. The
        runs open in the visualizer, the last one in front, the others as tabs.
        """
        __tracebackhide__ = True
        try:
            arguments = _arguments(line)
            return self._cell(arguments, line, cell)
        except NkiError as error:  # of the first line: those of the cell are on display
            if not hasattr(error, "_render_traceback_"):
                _render(error, [_headline(item) for item in error.diagnostics])
            raise

    def _cell(self, arguments: Namespace, line: str, body: str) -> object:
        __tracebackhide__ = True
        linecache.checkcache()  # modules may have been edited and loaded again since the last cell
        live = LiveView(self.shell, wanted=not arguments.no_view)
        with live, chosen(target=arguments.target, strict=arguments.strict) as arch:
            inputs = maker(arguments.inputs) if arguments.inputs else None
            runs = Runs(inputs, self._earlier.add, tabs=0 if arguments.no_view else TABS)
            try:
                cell = cells.read(self.shell, line, body)
            except SyntaxError as error:
                raise _not_python(self.shell, error) from None
            self._results.enter(cell.name)
            found: list[Diagnostic] = []
            seconds = 0.0
            later = False
            if not arguments.no_check:
                # A run judges its program itself. What a program as a whole may have is no fault, which keeps from
                # running, but may be a reject.
                later = cell.runs_all() and not (arguments.check_only or arguments.strict)
                with self._stoppable(live), live.checking(_named(cell), arch.target):
                    found, seconds = cells.check(cell, self.shell.user_ns, arch, judged=not later)
            if arguments.check_only:
                live.publish(display.findings(found, cell, seconds=seconds))
                return None
            found = [item for item in found if item.code not in _OF_THE_CHECK]
            self._refuse(found, cell, seconds, live, strict=arguments.strict)
            if found:
                display.publish(display.findings(found, cell, seconds=seconds))
            silent = DisplayHook.semicolon_at_end_of_expression(body)
            judge = (lambda: cells.check(cell, self.shell.user_ns, arch)[0]) if later else None
            value = self._run(cell, runs, found, arguments, judge, live, silent=silent)
            if runs.last is None:
                names = [name for name in cell.functions() if issubclass(type(self.shell.user_ns.get(name)), Kernel)]
                live.publish(display.nothing_called(names, seconds))
            elif arguments.save:
                runs.last.save(arguments.save)
            live.clear()
            if arguments.check_against:
                display.publish(checked(runs.last, arguments.check_against, self.shell.user_ns))
            if arguments.compare:
                display.publish(compared(runs.last, arguments.compare, self._earlier, self.shell.user_ns))
            if arguments.targets:
                display.publish(on_targets(runs.last, arguments.targets))
            self._earlier.add(runs.last)
            self._earlier.settle()
            return None if arguments.no_view and runs.is_last(value) else value

    @contextlib.contextmanager
    def _stoppable(self, live: LiveView) -> Iterator[None]:
        """Say of an interrupt in the check that it was heard, and no more."""
        try:
            yield
        except KeyboardInterrupt as error:
            live.clear()
            _render(error, ["Cancelled while the cell was checked."])
            raise

    def _refuse(
        self, found: list[Diagnostic], cell: cells.Cell, seconds: float, live: LiveView, *, strict: bool
    ) -> None:
        """Show the findings and end the cell where one of them would end its run."""
        __tracebackhide__ = True
        from nki_lab.query.recorded import is_recorded  # loaded by the check

        ending = ("fault", "reject") if strict else ("fault",)
        faults = [item for item in found if item.outcome in ending and item.severity == "error"]
        # The cell may be about to take other arguments, and a failure of the check is none of the cell.
        faults = [item for item in faults if not is_recorded(item) and item.code != OWN_FAULT]
        if faults:
            title = f"Not run: {counts(faults, information='note')}"
            live.publish(display.findings(found, cell, title=title, seconds=seconds))
            error = NkiError(faults)
            _render(error, [title])
            raise error

    def _run(
        self,
        cell: cells.Cell,
        runs: Runs,
        known: list[Diagnostic],
        arguments: Namespace,
        judge: Judge | None,
        live: LiveView,
        *,
        silent: bool,
    ) -> object:
        """Run the cell, show what ran in it, and give the value of its last line."""
        __tracebackhide__ = True
        value = None
        failed = True
        try:
            with observed_by(runs), live.followed():
                value = cells.execute(cell, self.shell)
            failed = False
        except NkiError as error:
            runs.findings.update(dict.fromkeys(error.diagnostics))
            shown_as = NkiError(error.diagnostics) if isinstance(error, SyntaxError) else error
            _render(shown_as, _failure(error, cell))
            raise shown_as from None
        except KeyboardInterrupt as error:
            live.say_cancelled(runs.executed)
            _render(error, [_cancelled(runs, live)])
            raise
        except BaseException as error:
            _strip(self.shell, error, cell)
            raise
        finally:
            if judge is not None and not cell.kernels() <= runs.names:
                runs.findings.update(dict.fromkeys(item for item in judge() if item.code not in _OF_THE_CHECK))
            drawn_later = not (failed or silent) and runs.is_last(value)
            self._show(cell, runs, known, arguments, live, drawn_later=drawn_later)
        return value

    def _show(
        self,
        cell: cells.Cell,
        runs: Runs,
        known: list[Diagnostic],
        arguments: Namespace,
        live: LiveView,
        *,
        drawn_later: bool,
    ) -> None:
        """Show the findings of the run alone, then the runs. IPython displays a run that is the cell's value."""
        live.stop()  # a view that is about to appear has a place to give up
        run = runs.last
        stays = _stays(runs, live)
        is_drawn = run is not None and run.has_recording and not arguments.no_view and not stays
        if run is not None and is_drawn:
            self._results.draw_beside(run, Beside(tuple(runs.drawn), runs.times))
        if run is not None and is_drawn and live.handle:
            live.replace(*self.shell.display_formatter.format(run))
            if drawn_later:
                _once_silent(run)
            drawn_later = True
        fresh = [item for item in runs.findings if not any(_same(item, other) for other in known)]
        if fresh:
            display.publish(display.findings(fresh, cell))
        if run is None:
            return
        if not is_drawn:
            if stays:
                live.leave(runs.line_of(run))
                display.publish(display.lines(runs))
            else:
                live.publish(display.lines(runs, last=runs.line_of(run)))
            for drawn in runs.drawn:  # the last one has no times: those before it are drawn all the same
                display.publish(drawn.bundle())
            return
        display.publish(display.lines(runs))
        if not drawn_later:
            display.draw(run)


def _same(one: Diagnostic, other: Diagnostic) -> bool:
    """Whether check and run found the same; they word origins differently."""
    return (one.code, one.file, one.line) == (other.code, other.file, other.line)


def _once_silent(run: Run) -> None:
    """Have IPython keep a run as the value of its cell without displaying it: it is displayed already."""
    run._ipython_display_ = lambda: run.__dict__.pop("_ipython_display_", None)  # type: ignore[attr-defined]


def _named(cell: cells.Cell) -> str:
    """Return the name of what a cell runs: its kernel, if it has one."""
    kernels = cell.kernels()
    return next(iter(kernels)) if len(kernels) == 1 else f"In[{cell.number}]"


def _stays(runs: Runs, live: LiveView) -> bool:
    """Return whether the view of a run that the user stopped stays, with what was known by then."""
    run = runs.last
    if run is None or not runs.is_cancelled or not live.keeps:
        return False
    return not run.has_recording or len(run.program) > _LARGE


def _cancelled(runs: Runs, live: LiveView) -> str:
    """Return what is said of a cell that the user stopped."""
    stopped = None if runs.last is None or runs.last.error is None else runs.last.error.diagnostics[0]
    if stopped is not None and stopped.code == INTERRUPTED:
        return f"Cancelled: {stopped.message}."
    monitor = live.monitor
    if not monitor.kernel:
        return "Cancelled."
    total = "" if monitor.total is None else f" of {monitor.total:,}"
    return f"Cancelled: {monitor.kernel}, after {monitor.done:,}{total} instructions."


# -- errors of a cell --------------------------------------------------------------------------------------------------


class _NotPythonError(Exception):
    """Ends a cell that is no Python."""


def _not_python(shell: InteractiveShell, error: SyntaxError) -> Exception:
    """Return the error that shows a syntax error as IPython does. A SyntaxError would be shown with our frames."""
    reported = type(type(error).__name__, (_NotPythonError,), {"__module__": __name__})(str(error))
    lines = shell.SyntaxTB.structured_traceback(type(error), error, [])
    if _AWAITS.search(str(error)):
        lines = [*lines, "%%nki runs a cell without an event loop: put what awaits into a cell without %%nki"]
    _render(reported, lines)
    return reported


_AWAITS: Final = re.compile("await|async")


def _render(error: BaseException, lines: list[str]) -> None:
    """Have IPython show these lines in place of a traceback."""
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


def _headline(item: Diagnostic) -> str:
    return f"{item.code} {item.message}{f'; {item.help}' if item.help else ''}"


def _failure(error: NkiError, cell: cells.Cell) -> list[str]:
    """Return the end of a cell that a fault stopped: the findings stand above it, this names the call."""
    called = next((step.tb_lineno for step in traceback_steps(error) if _file_of(step) == cell.name), 0)
    first = error.diagnostics[0]
    return [display.headline(first, cell), *([f"called at line {called}"] if called and called != first.line else [])]


def _file_of(step: types.TracebackType) -> str:
    return step.tb_frame.f_code.co_filename


def _strip(shell: InteractiveShell, error: BaseException, cell: cells.Cell) -> None:
    """Have IPython show the traceback from the cell's own frame on, without frames of this package."""

    def lines() -> list[str]:
        inner = itertools.dropwhile(lambda step: _file_of(step) != cell.name, traceback_steps(error))
        traceback: types.TracebackType | None = None
        for item in reversed([step for step in inner if not is_ours(step.tb_frame)]):
            traceback = types.TracebackType(traceback, item.tb_frame, item.tb_lasti, item.tb_lineno)
        rendered: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, traceback, tb_offset=0)
        return rendered

    if not issubclass(type(error), SyntaxError | UsageError):  # IPython has its own ways with these
        error._render_traceback_ = lines  # type: ignore[attr-defined]


def _record(shell: InteractiveShell) -> None:
    """Record the calls of kernels in the cells of a shell, in memory; on disk only where their project says so."""

    def begin(_info: object = None) -> None:
        choices.origin = f"In[{cells.running_number(shell)}]"

    def end(_result: object = None) -> None:
        choices.origin = ""
        recorder.write()

    choices.session = True
    if shell not in _recorded:
        _recorded.add(shell)
        shell.events.register("pre_run_cell", begin)
        shell.events.register("post_run_cell", end)


_recorded: Final[WeakSet[InteractiveShell]] = WeakSet()
"""The shells whose cells' calls are recorded."""


def _drop_offer(shell: InteractiveShell) -> None:
    """Forget the offer of `import_hint`: a line that begins with a variable `nki` would call it."""
    manager = shell.magics_manager
    if manager.lazy_magics.pop("nki", None) is not None:
        for kind in manager.magics.values():
            kind.pop("nki", None)


def load(shell: InteractiveShell) -> None:
    """Make `%%nki` known to a shell, and NKI importable in it; from now on calls of kernels are recorded."""
    _drop_offer(shell)
    shell.register_magics(NkiMagics)
    _record(shell)
    notebook_context.install(shell, NkiMagics.nki.parser)
    start()
    try:
        activate()
    except NkiError as error:  # a real NKI is installed; the cells' kernels are that one's until the user decides
        print(error)
