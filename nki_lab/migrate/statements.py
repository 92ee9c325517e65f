"""Statements with tiles: results that get a destination, updates in place, masks and conditions."""

from __future__ import annotations

import ast
import functools
from typing import Final

from nki_lab.isa.dtype import DType
from nki_lab.migrate import tensors
from nki_lab.migrate.context import Context
from nki_lab.migrate.instructions import Bound, bound, declared_sizes, result_of, spelt
from nki_lab.migrate.language import LANGUAGE, language_call, method_call, operator_call, operator_name
from nki_lab.migrate.masks import Box
from nki_lab.migrate.operators import constant_text
from nki_lab.migrate.results import guarded, made
from nki_lab.migrate.views import Bounds

_AUGMENTED: Final = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}


class Statements:
    """Rewrites the statements of a module, the inner expressions first."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.declared_sizes = functools.partial(declared_sizes, context)

    def run(self, body: list[ast.stmt]) -> None:
        """Rewrite the statements of a block and of the blocks in it."""
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                return
            case ast.Assign(targets=[target], value=value):
                self._assign(node, target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self._assign(node, target, value)
            case ast.AugAssign():
                self._augmented(node)
            case ast.Expr(value=value):
                self._expression_statement(node, value)
            case _:
                self._inside(node)

    def _inside(self, node: ast.AST) -> None:
        """Rewrite the parts of a node."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.stmt):
                self._statement(child)
            else:
                self._inside(child)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> None:
        """Rewrite an expression; calls that return tiles get a tile in front of the statement."""
        context = self._context
        if isinstance(node, ast.JoinedStr):
            return
        self._inside(node)
        match node:
            case ast.Subscript():
                self._subscript(node)
            case ast.Call():
                self._call(node)
            case ast.BinOp() | ast.UnaryOp() | ast.Compare():
                text = operator_call(context, node) if operator_name(node) else None
                if text is not None:
                    context.edits.replace(node, text)
            case ast.Attribute():
                text = constant_text(context, node) or tensors.dtype_of_list(context, node)
                if text is not None:
                    context.edits.replace(node, text)
            case _:
                return

    def _subscript(self, node: ast.Subscript) -> None:
        context = self._context
        if not context.values.of(node.value).is_tensor:
            return
        view = context.views.of(node)
        if view is None:
            context.leave(tensors.row_of(context, node), node, "it is no slice, and its sizes are not known here")
        elif view.rows or view.text != context.edits.text_of(node):
            context.done(*view.rows)
            context.edits.replace(node, view.text)

    def _call(self, node: ast.Call) -> None:
        """Rewrite a call in the midst of an expression."""
        context = self._context
        call = bound(context, node)
        name = context.names.dotted(node.func)
        mask = next((item.value for item in node.keywords if item.arg == "mask"), None)
        if call is not None and call.spelling.returns:
            self._hoist(node, call, None)
        elif call is not None:
            self._in_place(node, call)
        elif name.startswith(f"{LANGUAGE}.") and mask is not None and context.values.of(node).is_tensor:
            self._hoist(node, None, mask)
        elif name.startswith(f"{LANGUAGE}.") and mask is not None:
            context.leave(15, mask, "the call is not known to make a tile")
        else:
            text = tensors.creation(context, node) or method_call(context, node) or language_call(context, node, {})
            if text is not None:
                context.edits.replace(node, text)

    def _in_place(self, node: ast.Call, call: Bound) -> None:
        """Rewrite a call that names its destination."""
        context = self._context
        box = context.box(call.mask)
        if box is None:
            context.leave(15, call.mask or node, "the mask is no box")
            return
        text = tensors.update(context, call, box.bounds) or spelt(context, call, None, box.bounds)
        if text is None:
            context.leave(7, node, "its arguments have no known form")
            return
        context.done(*([15] if box.bounds else []))
        statement = context.edits.statement(node)
        if isinstance(statement, ast.Expr) and statement.value is node:
            self._write(statement, text, box, call.mask)
        else:
            context.edits.replace(node, text)

    def _hoist(self, node: ast.Call, call: Bound | None, mask: ast.expr | None) -> None:
        """Compute a tile in front of the statement, and put its name in the place of the call."""
        context = self._context
        statement = context.hoistable(node)
        row = 7 if call is not None else 15
        if statement is None:
            context.leave(row, node, "it is evaluated under a condition: give the result a statement of its own")
            return
        name = context.names.dotted(node.func).rpartition(".")[2]
        tile = context.fresh(f"{name}_tile")
        lines = made(context, node, call, mask, tile)
        if lines is None:
            return
        context.edits.before(statement, *lines)
        context.edits.replace(node, tile)

    # -- statements ----------------------------------------------------------------------------------------------------

    def _write(self, statement: ast.stmt, text: str, box: Box | None = None, mask: ast.expr | None = None) -> None:
        """Put a text in the place of a statement; its comments stay."""
        context = self._context
        lost = [item for item in context.edits.comments(statement) if item not in text]
        if lost:
            context.edits.before(statement, *lost)
        if box is not None:
            text = guarded(context, text, box, mask, context.edits.indent(statement))
        context.edits.replace(statement, text)

    def _expression_statement(self, node: ast.Expr, value: ast.expr) -> None:
        context = self._context
        mask = None
        if isinstance(value, ast.Call):
            mask = next((item.value for item in value.keywords if item.arg == "mask"), None)
        name = context.names.dotted(value.func) if isinstance(value, ast.Call) else ""
        if not isinstance(value, ast.Call) or mask is None or not name.startswith(f"{LANGUAGE}."):
            self.expression(value)
            return
        self._inside(value)
        box = context.box(mask)
        text = None if box is None else language_call(context, value, box.bounds)
        if box is None or text is None:
            context.leave(15, mask, "the mask is no box")
            return
        context.done(*([15] if box.bounds else []))
        self._write(node, text, box, mask)

    def _assign(self, node: ast.Assign | ast.AnnAssign, target: ast.expr, value: ast.expr) -> None:
        context = self._context
        if isinstance(value, ast.Call) and isinstance(target, ast.Name | ast.Subscript):
            self._inside(value)
            if isinstance(target, ast.Subscript):
                self._inside(target)
            if self._assigned(node, target, value):
                return
            self._after_parts(value)
        else:
            self.expression(value)
            if isinstance(target, ast.Subscript):
                self._inside(target)
        if isinstance(target, ast.Subscript) and context.values.of(target.value).is_tensor:
            context.edits.replace(target, self._target(target, {}))
        elif not isinstance(target, ast.Name | ast.Subscript):
            self._inside(target)

    def _after_parts(self, value: ast.Call) -> None:
        """Rewrite a call whose parts are done."""
        self._call(value)

    def _target(self, target: ast.Subscript, bounds: Bounds) -> str:
        """Return an assignment target under the bounds of a mask; a tile of a list is written, not replaced."""
        context = self._context
        view = context.views.of(target, bounds)
        if view is None:
            context.leave(tensors.row_of(context, target), target, "it is no slice, and its sizes are not known here")
            return context.edits.text_of(target)
        context.done(*view.rows)
        is_whole = (tensors.is_tile_of_list(context, target) and not bounds) or view.text.endswith(")")
        return f"{view.text}[...]" if is_whole else view.text

    def _assigned(self, node: ast.Assign | ast.AnnAssign, target: ast.expr, value: ast.Call) -> bool:
        """Rewrite `target = call(…)`; return whether that is done."""
        context = self._context
        call = bound(context, value)
        mask = next((item.value for item in value.keywords if item.arg == "mask"), None)
        name = context.names.dotted(value.func)
        is_language = call is None and name.startswith(f"{LANGUAGE}.")
        if call is not None and not call.spelling.returns:
            return False
        if isinstance(target, ast.Name):
            lines = tensors.list_of_tiles(context, target.id, value)
            if lines is not None:
                context.edits.before(node, *lines[:-1])
                self._write(node, lines[-1].replace("\n", f"\n{context.edits.indent(node)}"))
                return True
            if call is None and not (is_language and mask is not None and context.values.of(value).is_tensor):
                return False
            reads = any(isinstance(item, ast.Name) and item.id == target.id for item in ast.walk(value))
            tile = context.fresh(f"{target.id}_new") if reads else target.id
            lines = made(context, value, call, mask, tile)
            if lines is None:
                return True
            context.edits.before(node, lines[0])
            text = lines[1].replace("\n", f"\n{context.edits.indent(node)}")
            self._write(node, text)
            if reads:
                context.edits.after(node, f"{target.id} = {tile}")
            return True
        if not isinstance(target, ast.Subscript) or not context.values.of(target.value).is_tensor:
            return False
        if name == f"{LANGUAGE}.loop_reduce":
            return tensors.loop_reduce(context, node, target, value, self._write)
        if call is None and not is_language:
            return False
        box = context.box(mask)
        if box is None:
            context.leave(15, mask or value, "the mask is no box")
            return True
        return self._into(node, target, value, call, box, mask)

    def _into(
        self,
        node: ast.stmt,
        target: ast.Subscript,
        value: ast.Call,
        call: Bound | None,
        box: Box,
        mask: ast.expr | None,
    ) -> bool:
        """Rewrite `t[…] = call(…)`: the call writes there."""
        context = self._context
        place = self._target(target, box.bounds)
        bare = place.removesuffix("[...]") if place != context.edits.segment(target) else place
        if call is None:
            kind = tensors.target_dtype(context, target)
            if context.names.dotted(value.func) == f"{LANGUAGE}.load" and value.args:
                source = value.args[0]
                if not any(
                    context.names.called(item, f"{LANGUAGE}.shared_identity_matrix") for item in ast.walk(source)
                ):
                    context.done(36)
                    text: str | None = (
                        f"{context.nisa('dma_copy')}(dst={bare}, src={context.operand(source, box.bounds)})"
                    )
                    self._write(node, text or "", box, mask)
                    return True
            text = language_call(context, value, box.bounds, kind)
            if text is None:
                return False
            text = f"{place} = {text}"
        else:
            own = result_of(context, call)
            spaces = call.instruction.operands[call.spelling.returns].spaces
            space = context.values.of(target.value).space()
            other = own is not None and space == "sbuf" != own.space
            if (
                own is not None
                and space
                and (other or not _allows(spaces, space) or tensors.casts(context, call, target))
            ):
                tile = context.fresh(f"{call.instruction.name}_tile")
                lines = made(context, value, call, mask, tile)
                if lines is None:
                    return True
                context.edits.before(node, *lines)
                part = context.views.whole(tile, own.sizes, len(own.sizes), box.bounds)
                text = f"{context.nisa('tensor_copy')}({bare}, {part})"
            else:
                text = spelt(context, call, bare, box.bounds)
            if text is None:
                context.leave(8, value, "its arguments have no known form")
                return True
            context.done(8, *([15] if box.bounds else []))
        self._write(node, text, box, mask)
        return True

    def _augmented(self, node: ast.AugAssign) -> None:
        """Rewrite `t += …`: a product accumulates, other updates are written back."""
        context = self._context
        target, value = node.target, node.value
        base = target.value if isinstance(target, ast.Subscript) else target
        if not context.values.of(base).is_tensor:
            self.expression(value)
            self._inside(target)
            return
        self._inside(value)
        if isinstance(target, ast.Subscript):
            self._inside(target)
        call = bound(context, value)
        mask = call.mask if call is not None else None
        box = context.box(mask)
        name = _AUGMENTED.get(type(node.op))
        if box is None or name is None:
            context.leave(15 if box is None else 34, node, "there is no such update")
            return
        place = self._target(target, box.bounds) if isinstance(target, ast.Subscript) else context.edits.text_of(target)
        place = place.removesuffix("[...]") or place
        psum = context.values.of(base).space() == "psum"
        if call is not None and call.instruction.accumulation is not None and psum and name == "add":
            extra = "accumulate=True" if tensors.has_other_writes(context, base) else ""
            text = spelt(context, call, place, box.bounds, extra)
            if text is not None:
                context.done(9)
                self._write(node, text, box, mask)
                return
        text = tensors.product(context, value, place) if psum and name == "add" else None
        if text is not None:
            context.done(9)
            self._write(node, text)
            return
        if call is not None and call.spelling.returns:
            self._hoist(call.node, call, None)
        else:
            self._finish(value)
        other = context.edits.text_of(value)
        if psum and context.values.of(value).space() == "psum":
            other = f"{context.nl('copy')}({other})"
        context.done(34)
        whole = place if place.endswith("]") else f"{place}[...]"
        written = (
            f"{whole}[...]" if isinstance(target, ast.Subscript) and tensors.is_tile_of_list(context, target) else whole
        )
        self._write(node, f"{written} = {context.nl(name)}({place}, {other})", box, mask)

    def _finish(self, value: ast.expr) -> None:
        """Rewrite an expression whose parts are done."""
        context = self._context
        if isinstance(value, ast.Call):
            self._call(value)
        elif isinstance(value, ast.Subscript):
            self._subscript(value)
        else:
            text = operator_call(context, value) if operator_name(value) else None
            if text is not None:
                context.edits.replace(value, text)


def _allows(spaces: tuple[str, ...], space: str) -> bool:
    return not spaces or any(str(item).lower() == space for item in spaces)


__all__ = ["DType", "Statements"]
