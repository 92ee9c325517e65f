"""The iterations of Python's loops that are running when an instruction is issued, and the places of a kernel's loops.

Loops are found in the source of the functions on the stack, their variables read from the frames: a kernel's `range`
is Python's own, and there is no signal of its steps. Where there is no source text there are no loops.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final
from weakref import ReferenceType as Weak

from nki_lab.kernel_runtime.ir import Iteration, Site
from nki_lab.kernel_runtime.issue.source_location import is_ours, site_at
from nki_lab.kernel_runtime.tensor import VirtualRegister
from nki_lab.source.code_table import CodeTable
from nki_lab.source.module import ModuleSource, module_at
from nki_lab.source.nesting import Nesting
from nki_lab.source.paths import first_name, scope_node, surroundings
from nki_lab.source.trees import Extent, extent
from nki_lab.source_files import read_again


@dataclass(slots=True, eq=False)
class Loop:
    """A `for` of some function: its variable, and the place of the word `for`."""

    variable: str
    site: Site
    number: int = -1  # of the site in the program


class CodePosition:
    """A place in some function: the loops around it, outermost first, and the stretch of plain code that it is in.

    Places in the same loops have the same `loops`; code of a stretch runs from its begin to its end, and a negative one
    is that place alone. `resumes` says that the function is a generator.
    """

    __slots__ = ("block", "loops", "resumes", "variables")

    def __init__(self, loops: tuple[Loop, ...], block: int, *, resumes: bool = False) -> None:
        self.loops = loops
        self.variables = [loop.variable for loop in loops]
        self.block = block
        self.resumes = resumes


class IterationTracker:
    """The iterations that a trace is in, as rows of the program's table.

    `root` is the frame that called the kernel; without it nothing is looked for. An iteration is a new row when the
    variable of a loop differs from its value at the instruction before.
    """

    def __init__(self, table: list[Iteration], site_of: Callable[[Site], int]) -> None:
        self.root: FrameType | None = None
        self._table = table
        self._site_of = site_of
        self._anatomies: dict[int, _Anatomy] = {}  # by id of the code object
        self._loops_at: dict[Site, Loop] = {}
        self._nests: dict[tuple[Loop, ...], tuple[Loop, ...]] = {}
        self._at: dict[tuple[int, int], CodePosition] = {}
        self._codes: list[CodeType] = []  # kept alive, so that ids stay unique
        self._modules: list[ModuleSource | None] = []  # kept alive during the trace, so that places stay known
        self._frame: FrameType | None = None  # of the instruction before, where it was
        self._loops: tuple[Loop, ...] = ()
        self._block = self._offset = -1
        self._last: list[object] = []
        self._around: list[object] = []  # of the frames that called it, as in `_last`
        self._number = -1
        self._stack: list[tuple[Loop, object, int]] = []  # (loop, key of its iteration, row), outermost first
        self._counts: dict[tuple[Loop, int], int] = {}
        self._around_device = [0]  # how much of the stack is outside of each device loop that is open; outermost 0

    def begin(self, root: FrameType) -> None:
        """Begin a trace of the kernel that `root` calls."""
        self.root = root
        self._around_device = [0, 0]
        self.leave(0)

    def end(self) -> None:
        """Release the frames of the kernel, which is over."""
        self.root = self._frame = None
        self._anatomies.clear()
        self._modules.clear()

    def current(self, frame: FrameType, place: CodePosition) -> int:
        """Return the row of the innermost iteration that a frame of the kernel is in; -1 outside of all loops."""
        offset = frame.f_lasti
        if frame is self._frame and not place.resumes:
            if place.block == self._block and offset > self._offset:
                self._offset = offset  # further on in plain code: no loop has stepped
                return self._number
            if place.loops is self._loops and self._is_next(frame, place):
                self._block, self._offset = place.block, offset
                return self._number
        root = self.root
        if root is None:
            return -1
        # While a frame runs those that called it stand still, but for a generator, which another one may resume.
        if frame is not self._frame or place.resumes:
            self._around = self._levels_around(frame, root)
        self._frame, self._block, self._offset, self._loops = frame, place.block, offset, place.loops
        levels = self._levels(frame, place) + self._around if place.loops else self._around
        if levels != self._last:
            self._last = levels.copy()
            self._number = self._row(levels)
        return self._number

    def _is_next(self, frame: FrameType, place: CodePosition) -> bool:
        """Return whether a frame is in its last iteration, or in the next of its innermost loop, which is entered.

        Another object that is the variable of another loop, or no number: then it is not known here.
        """
        if not place.loops or not self._stack or self._stack[-1][0] is not place.loops[-1]:
            return False
        names, last = frame.f_locals, self._last
        depth = len(place.variables)
        for position, variable in enumerate(place.variables, 1):
            value = names.get(variable)
            if value.__class__ is not int or last[position].__class__ is not int:
                return False
            if value != last[position]:
                if position < depth:
                    return False
                last[depth] = value
                self._number = self._next(value)
        return True

    def _next(self, value: int) -> int:
        """Return the row of the next iteration of the innermost loop."""
        loop, _, _ = self._stack.pop()
        parent = self._stack[-1][2] if self._stack else -1
        number = len(self._table)
        self._table.append(_new(Iteration, (parent, loop.variable, value, loop.number)))
        self._stack.append((loop, value, number))
        return number

    def _levels(self, frame: FrameType, place: CodePosition) -> list[object]:
        """Return the loops that a frame is in, and the keys of their iterations."""
        names = frame.f_locals
        levels: list[object] = [place.loops]
        for variable in place.variables:
            value = names.get(variable)
            # Other values are distinguished by identity: to compare tensors is an instruction.
            levels.append(value if value.__class__ is int else (id(value), value.__class__))
        return levels

    def _levels_around(self, frame: FrameType, root: FrameType) -> list[object]:
        """Return the loops and keys of the frames that called `frame`, innermost first."""
        levels: list[object] = []
        around = frame.f_back if frame is not root else None
        while around is not None and around is not root:
            place = self.place_of(around)
            if place.loops:
                levels += self._levels(around, place)
            around = around.f_back
        return levels

    def place_of(self, frame: FrameType) -> CodePosition:
        """Return the position of a frame; it has no loops in our own code."""
        code, offset = frame.f_code, frame.f_lasti
        known = self._at.get((id(code), offset))
        if known is None:
            self._codes.append(code)
            known = self._at[id(code), offset] = NOWHERE if is_ours(frame) else self._place(code, offset)
        return known

    def _place(self, code: CodeType, offset: int) -> CodePosition:
        anatomy = self._anatomies.get(id(code))
        if anatomy is None:
            anatomy, module = _anatomy(code)
            self._anatomies[id(code)] = anatomy
            self._modules.append(module)
        sites, stretch = anatomy.around(offset)
        inside = tuple([self._loops_at.setdefault(site, Loop(variable, site)) for variable, site in sites])
        return CodePosition(
            self._nests.setdefault(inside, inside), stretch, resumes=bool(code.co_flags & inspect.CO_GENERATOR)
        )

    def enter(self) -> int:
        """Enter a device loop, to which further rows belong; return the token that `leave` needs."""
        self._frame = None
        self._around_device.append(len(self._stack))
        return len(self._stack)

    def leave(self, token: int) -> None:
        """Leave the device loop that `enter` returned `token` for."""
        self._frame = None
        self._around_device.pop()
        del self._stack[token:]
        self._last = []
        self._number = self._stack[-1][2] if self._stack else -1

    def _row(self, levels: list[object]) -> int:
        """Return the row of iterations; those that differ from the last ones, and all inside them, get new rows."""
        wanted = _flat(levels)
        stack, parent = self._stack, -1
        depth = outside = self._around_device[-1]
        if depth:  # these stand still, also where the loop of the device has taken over the name of their variable
            parent = stack[depth - 1][2]
            wanted = _without(wanted, [row[0] for row in stack[:depth]])
        for (loop, key), row in zip(wanted, stack[depth:], strict=False):
            if row[0] is not loop or row[1] != key:
                break
            depth, parent = depth + 1, row[2]
        del stack[depth:]
        for loop, key in wanted[depth - outside :]:
            if loop.number < 0:
                loop.number = self._site_of(loop.site)
            value = key
            if key.__class__ is not int:  # the number of the iteration, of other variables
                value = self._counts[loop, parent] = self._counts.get((loop, parent), -1) + 1
            number = len(self._table)
            self._table.append(_new(Iteration, (parent, loop.variable, value, loop.number)))
            stack.append((loop, key, number))
            parent = number
        return parent


_new = tuple.__new__  # a third of the time of Iteration(...)


def _flat(levels: list[Any]) -> list[tuple[Loop, Any]]:
    """Return (loop, key of its iteration), outermost first, without loops of the device."""
    out: list[tuple[Loop, Any]] = []
    at = 0
    while at < len(levels):
        loops = levels[at]
        end = at + 1 + len(loops)
        keyed = zip(loops, levels[at + 1 : end], strict=True)
        out[:0] = [pair for pair in keyed if pair[1].__class__ is int or pair[1][1] is not VirtualRegister]
        at = end
    return out


def _without(wanted: list[tuple[Loop, Any]], around: list[Loop]) -> list[tuple[Loop, Any]]:
    """Leave out the loops that are `around`, which come first and in that order, as far as they are there."""
    at, out = 0, []
    for pair in wanted:
        if pair[0] in around[at:]:
            at = around.index(pair[0], at) + 1
        else:
            out.append(pair)
    return out


NOWHERE = CodePosition((), -1)


@dataclass(slots=True)
class _Anatomy:
    """The tree of a code object, as far as it is at hand, and what surrounds its places that were asked about."""

    code: Weak[CodeType]  # alive while it is asked about
    module: Weak[ModuleSource] | None
    scope: Weak[ast.AST] | None = None
    known: dict[int, tuple[tuple[tuple[str, Site], ...], int]] = field(default_factory=dict)

    def around(self, offset: int) -> tuple[tuple[tuple[str, Site], ...], int]:
        """Return the loops around the instruction at byte `offset`, as variable and site, and its stretch."""
        found = self.known.get(offset)
        if found is None:
            found = self.known[offset] = self._find(offset)
        return found

    def _find(self, offset: int) -> tuple[tuple[tuple[str, Site], ...], int]:
        code, module, alone = self.code(), None if self.module is None else self.module(), -2 - offset
        if code is None or module is None:
            return (), alone
        place = _extent(site_at(code, offset))
        scope = None if self.scope is None else self.scope()
        if scope is None:
            scope = scope_node(module, code.co_name, code.co_firstlineno, place)
            if scope is None:
                return (), alone
            self.scope = Weak(scope)
        loops, stretch = surroundings(module, scope, place)
        sites = [
            (name, Site(code.co_filename, line, column, line, column + len("for"), code.co_qualname))
            for name, line, column in loops
        ]
        return tuple(sites), alone if stretch < 0 else stretch


_anatomies: Final[CodeTable[_Anatomy]] = CodeTable(1024)


def _anatomy(code: CodeType) -> tuple[_Anatomy, ModuleSource | None]:
    """Return the anatomy of a code object and its module.

    Anatomies of the last objects asked about are kept while their text is the same; they keep neither code nor module.
    """
    known = _anatomies.get(id(code))
    if known is None:
        read_again(code.co_filename)
    module = module_at(code.co_filename)
    if known is None or (None if known.module is None else known.module()) is not module:
        known = _anatomies.enter(code, _Anatomy(Weak(code), None if module is None else Weak(module)))
    return known, module


def variable_at(frame: FrameType) -> str:
    """Return the name that a frame, which is asking an iterator for its next item, is about to bind to it."""
    module = module_at(frame.f_code.co_filename)
    if module is None:
        return ""
    place = _extent(site_at(frame.f_code, frame.f_lasti))
    loop = next((node for node in _loops(module) if place in (extent(node), extent(node.iter))), None)
    return "" if loop is None else first_name(loop.target)


def _loops(module: ModuleSource) -> Sequence[ast.For]:
    """Return the `for` loops of a module, which are sought once."""
    return module.once(ast.For, lambda: [node for node in ast.walk(module.tree) if isinstance(node, ast.For)])


def _extent(site: Site) -> Extent:
    return site.line, site.column, site.end_line, site.end_column


class _Whiles:
    """The `while` loops of a module by the places of the statements and of their tests."""

    def __init__(self, module: ModuleSource) -> None:
        loops = [node for node in ast.walk(module.tree) if isinstance(node, ast.While)]
        self.by_place: dict[tuple[int, ...], ast.While] = {}
        for node in loops:
            self.by_place.setdefault(extent(node), node)
            self.by_place.setdefault(extent(node.test), node)
        self.wholes = frozenset(map(extent, loops))
        self.tests = Nesting([extent(node.test) for node in loops], lambda test: (test[:2], test[2:]))


def _whiles(file: str) -> _Whiles | None:
    """Return the `while` loops of a file, which are sought once."""
    module = module_at(file)
    return None if module is None else module.once(ast.While, lambda: _Whiles(module))


def while_at(file: str, *place: int) -> ast.While | None:
    """Return the `while` that stands, or whose test stands, at a place, if the test is plain: no `not`, no `and`."""
    loops = _whiles(file)
    node = None if loops is None else loops.by_place.get(place)
    return node if node is not None and is_plain(node.test) else None


def is_tested_by_while(site: Site) -> bool:
    """Return whether a place is the test of a `while`, or a part of it."""
    place, loops = _extent(site), _whiles(site.file)
    if loops is None:
        return False
    return place in loops.wholes or any(place[2:] <= test[2:] for test in loops.tests.around(place[:2]))


def is_plain(test: ast.expr) -> bool:
    """Return whether Python asks the test's own value for its truth, and nothing else."""
    return not isinstance(test, ast.BoolOp | ast.UnaryOp | ast.Compare | ast.IfExp | ast.NamedExpr)


def way_out(loop: ast.While | ast.For) -> ast.stmt | None:
    """Return the first statement that leaves a loop from inside: a `break` of its own, or a `return`."""
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in reversed(loop.body)]
    while stack:
        node, inner = stack.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inner):
            return node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        inside = inner or isinstance(node, ast.For | ast.While | ast.AsyncFor)
        stack.extend((child, inside) for child in reversed(list(ast.iter_child_nodes(node))))
    return None
