"""The kernels of a module, evaluated with every signature that the source gives them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from nki_lab.call_records.store import CallRecord
from nki_lab.diagnostic import Diagnostic
from nki_lab.kernel_runtime.interpreter import (
    Assumptions,
    Evaluation,
    HostRun,
    Launches,
    ModuleStates,
    Signature,
    Variable,
    beta1_dialect,
    evaluate,
    launches,
)
from nki_lab.kernel_runtime.interpreter.signatures import HOST_BUDGET, MOST
from nki_lab.query import found_calls, messages, sampling
from nki_lab.query.agreement import NEEDS_NKI
from nki_lab.query.call_sites import call_sites, calls_inside
from nki_lab.query.callers import called_elsewhere, calls_in
from nki_lab.query.equal_functions import EqualFunctions
from nki_lab.query.evaluation_cache import (
    EvaluationCache,
    Examination,
    KernelEvaluation,
    Place,
    Verdict,
    blocks_of,
)
from nki_lab.query.missing_modules import missing_modules
from nki_lab.query.one_kernel import EvaluationRequest, WholePrograms, evaluation_of, outermost, reached, signature_key
from nki_lab.query.partial import common_variables
from nki_lab.query.parts import Part, made_kernels, parts_of
from nki_lab.query.reach import Reach, joined, reach_of
from nki_lab.query.recorded import Calls, RecordSearch, first_recorded, recorded_calls, target_of, with_call
from nki_lab.query.under_signatures import Asked, sure_under, under_signatures
from nki_lab.query.witnesses import possible
from nki_lab.source import KernelFunction, ModuleSource, SyntaxFacts, facts_of
from nki_lab.source.kernel_code import Dialect
from nki_lab.source.trees import FUNCTIONS, numbers_in

V = TypeVar("V")


def evaluated(facts: SyntaxFacts, request: EvaluationRequest, cache: EvaluationCache) -> Examination:
    """Evaluate the kernels of a module, each with at most four signatures."""
    found = _ModuleEvaluation(facts, request, cache).run()
    cache.end_examination()
    return found


def signatures(facts: SyntaxFacts, request: EvaluationRequest) -> dict[str, Sequence[Signature]]:
    """Return the signatures with which the kernels of a module are evaluated, by their names."""
    evaluation = _ModuleEvaluation(facts, request, EvaluationCache())
    found: dict[str, Sequence[Signature]] = {}
    for part in parts_of(facts):
        found |= evaluation.signatures(part, evaluation.launches(part))
    return found


def first_signature(
    facts: SyntaxFacts, part: Part, kernel: KernelFunction, request: EvaluationRequest, cache: EvaluationCache
) -> Signature | None:
    """Return the first signature that a kernel is sure to be evaluated with, else that of its first recorded launch;
    None without one.
    """
    evaluation, name = _ModuleEvaluation(facts, request, cache), kernel.node.name
    request = request.at(kernel.node.lineno)
    known = evaluation.signatures(part, evaluation.launches(part)).get(name) or evaluation.called_elsewhere(name)
    sure = next((item for item in known if not item.assumed), None)
    return first_recorded(evaluation.recorded_of(name), kernel.node, request.arch) if sure is None else sure


class _ModuleEvaluation:
    """One evaluation of a module; of several evaluations of one place the first counts."""

    def __init__(self, facts: SyntaxFacts, request: EvaluationRequest, cache: EvaluationCache) -> None:
        self._facts = facts
        self._entries = frozenset(facts.kernels)
        self._made = made_kernels(facts)
        self._request = request
        self._cache = cache
        self._left = request.steps
        self._findings: list[Diagnostic] = []
        self._known: list[Examination] = []
        self._entered: set[str] = set()
        self._on_host: set[str] = set()
        self._excused: dict[str, str] = {}
        self._without_shapes: list[KernelFunction] = []
        self._recorded: Calls | None = None
        self._verdicts: list[Verdict] = []
        self._states = ModuleStates()
        self._host: tuple[ModuleSource, HostRun] | None = None
        self._equal = EqualFunctions(facts)
        self._sampled = 0  # functions of different texts without shapes, and their runs
        self._runs = 0
        self._unsampled: list[KernelFunction] = []
        self._sure: list[Diagnostic] = []  # of the kernel that is evaluated, under its signatures so far
        self._charged: dict[tuple[str, int], int] = {}  # steps of modules, by part

    def run(self) -> Examination:
        """Evaluate all kernels."""
        facts, request = self._facts, self._request
        unshaped: list[tuple[Part, KernelFunction]] = []
        request.library.refresh()
        parts = list(parts_of(facts))
        self._leave_out_parts(parts)
        for part in parts:
            called = self.launches(part)
            self._findings += called.failures
            self._on_host |= outermost(called.called)
            known = self.signatures(part, called)
            for kernel in part.kernels:
                name = kernel.node.name
                if _is_foreign(kernel.dialect):
                    reason = "is a kernel of neuronxcc.nki, which is not evaluated here"
                    self._findings.append(messages.not_evaluated(facts, kernel, reason))
                    self._excused[name] = "other-dialect"
                elif part.module.function(name) is not kernel.node:
                    made = self._made.get(kernel.node)
                    if made is None or not self._evaluate_all(part, kernel, called.made.get(made, ())):
                        self._findings.append(messages.out_of_reach(facts, kernel))
                elif not self._evaluate_all(part, kernel, known.get(name, ())):
                    unshaped.append((part, kernel))
            self._evaluate_others(called)
            self._evaluate_made_elsewhere(part, called)
        self._evaluate_given_helpers()
        if request.explicit is None:
            self._evaluate_unshaped([item for item in unshaped if messages.parameters_of(item[1].node)])
            self._evaluate_helpers()
        self._findings += missing_modules(facts, request.library)
        if self._unsampled:
            self._findings.append(messages.not_sampled(facts, self._unsampled, request.steps))
        reach = joined([*(item.reach for item in self._known), Reach(excused=self._excused)])
        if self._without_shapes:
            sites = call_sites(facts, reach)
            if request.alone:
                sites = tuple(item for item in sites if facts.functions_around(item.line))
            self._findings.append(messages.without_shapes(facts, self._without_shapes, sites))
        return Examination(
            findings=tuple(self._findings),
            variables=_joined(item.variables for item in self._known),
            issued=_first(item.issued for item in self._known),
            expressions=_joined(item.expressions for item in self._known),
            reach=reach,
            recorded=tuple(self._verdicts),
        )

    def _evaluate_all(
        self, part: Part, kernel: KernelFunction, signatures: Sequence[Signature], *, inner: bool = False
    ) -> bool:
        """Evaluate a kernel with each signature, or a function that kernels call (`inner`).

        Returns whether there is a signature that may be meant. What is entered by a call that is not sure may be
        entered in other ways too.
        """
        asked: Asked = []
        self._sure = []
        for signature in signatures:
            found = self._evaluate_call(part, kernel, signature, inner=inner, tells=True)
            if found is _LATE:
                self._findings.append(messages.out_of_steps(self._facts, kernel, self._request.steps))
                self._excused[kernel.node.name] = "no-steps"
                return True
            if found is None:
                continue
            self._known.append(found)
            if not signature.assumed:
                self._entered |= found.reach.entered
            asked.append((signature, found))
            self._sure += sure_under(self._facts, kernel, signature, found)
            if signature.assumed and len(asked) == found_calls.MOST_ACCEPTED:
                break
        self._findings += under_signatures(self._facts, kernel, asked)
        if asked and not inner:
            self._evaluate_recorded(part, kernel)
        return bool(asked)

    def _evaluate_call(
        self, part: Part, kernel: KernelFunction, signature: Signature, *, inner: bool = False, tells: bool = False
    ) -> KernelEvaluation | None:
        """Return the evaluation of a function with one signature, None where that cannot be meant.

        It `tells` early what it finds where that is sure.
        """
        grids = found_calls.possible_grids(kernel, signature, self._request_for(part, kernel).arch)
        found = []
        sure = not signature.assumed and signature.grid is not None
        for grid in grids:
            result = self._evaluate(part, kernel, replace(signature, grid=grid), inner=inner, tells=tells and sure)
            if result is None:
                return _LATE
            found.append(result)
        return found[0] if sure else found_calls.certain(found)

    def _evaluate_given_helpers(self) -> None:
        """Evaluate the functions that are no kernels, and that the settings give arguments."""
        facts, request = self._facts, self._request
        if request.explicit is not None:
            return
        part = Part(facts.parsed, (), blocks_of(facts.parsed))
        entries = {item.node.name for item in facts.functions if item.is_entry}
        reached = {item.node: item.dialect for item in facts.functions}
        for name, signatures in request.given.items():
            node = facts.parsed.function(name)
            if node is None or name in entries:
                continue
            dialect = reached.get(node, facts.dialect or "current")
            if not _is_foreign(dialect):
                helper = KernelFunction(node=node, dialect=dialect, kernel=node)
                self._evaluate_all(part, helper, signatures[:MOST], inner=True)

    def recorded_of(self, name: str) -> tuple[CallRecord, ...]:
        """Return the recorded calls of a function."""
        request = self._request
        if self._recorded is None:
            kept = {} if request.explicit is not None else recorded_calls(request.library.place(self._facts.file))
            self._recorded = {**kept, **request.recorded}
        return self._recorded.get(name, ())

    def _evaluate_recorded(self, part: Part, function: KernelFunction) -> bool:
        """Evaluate a kernel or helper with recorded calls under which it reaches more; return whether there are any."""
        request, name = self._request_for(part, function), function.node.name
        calls = self.recorded_of(name)

        def evaluate(signature: Signature, call: CallRecord) -> KernelEvaluation | None:
            asked = replace(request, judged=request.judged and not call.inner, arch=target_of(call, request.arch))
            return self._evaluate(part, function, signature, asked, inner=call.inner)

        known = {place for item in self._known for place in item.operations - item.unknown} if calls else set()
        search = RecordSearch(function.node, evaluate, known, self._verdicts)
        telling = list(search.among(calls))
        for item in telling:
            self._known.append(item.evaluation)
            self._entered |= item.evaluation.reach.entered
            found = under_signatures(self._facts, function, [(item.signature, item.evaluation)])
            self._findings += with_call(name, item, found, request.arch)
        return bool(telling)

    def _evaluate_unshaped(self, unshaped: Sequence[tuple[Part, KernelFunction]]) -> None:
        """Evaluate kernels with the signatures of other files, and without any where none of those is sure.

        Those that others enter are left out, unless the name is bound again: which of them it was is not told.
        """
        bound = Counter(kernel.node.name for _, kernel in unshaped)

        def entered(name: str) -> bool:
            return bound[name] == 1 and name in self._entered

        unshaped = [item for item in unshaped if not entered(item[1].node.name)]
        found = self._called_elsewhere(frozenset(kernel.node.name for _, kernel in unshaped))
        for part, kernel in unshaped:
            signatures = found.get(kernel.node.name, ())
            if not self._evaluate_all(part, kernel, signatures) and not self._evaluate_recorded(part, kernel):
                self._without_shapes.append(kernel)
            if not entered(kernel.node.name):
                self._sample(part, kernel)

    def _called_elsewhere(self, names: frozenset[str]) -> Mapping[str, tuple[Signature, ...]]:
        request = self._request
        return called_elsewhere(self._facts.file, names, request.library, self._cache, request.budget.stop)

    def called_elsewhere(self, name: str) -> Sequence[Signature]:
        """Return the signatures with which other files call a function."""
        return self._called_elsewhere(frozenset({name})).get(name, ())

    def _sample(self, part: Part, function: KernelFunction) -> None:
        """Evaluate a function of whose arguments nothing is known: what is wrong then is wrong for all of them."""
        request, file = self._request_for(part, function), part.module.file
        name, dialect = function.node.name, function.dialect
        is_kernel = function.node in self._entries
        asked = (request.describes, request.possible, is_kernel)
        shape = ("assumed", file, len(part.blocks), request.arch.target, request.options, dialect, *asked)
        key, node = (*shape, name), part.module.function(name)
        if self._left <= 0:
            self._leave_out(function)
            return
        found = None if node is None else self._equal.recall(shape, node)
        is_new = found is None
        if is_new and (self._sampled >= messages.MOST_SAMPLED or self._runs >= messages.MOST_RUNS):
            self._leave_out(function)
            return
        if found is None:
            found = self._cache.recall(key, part.blocks, file, KernelEvaluation)
            if found is not None and node is not None and request.library.holds(found.reads):
                self._equal.keep(shape, node, found)
        if found is None or not request.library.holds(found.reads):
            known = self._cache.calls(("assumed", request.arch.target, request.options))
            judge = WholePrograms(part.module, is_kernel=is_kernel)
            spent = taken = 0

            def once(assumptions: Assumptions) -> Evaluation:
                nonlocal spent, taken
                budget = replace(request.budget, steps=sampling.steps_of(assumptions))
                with part.module.shown():
                    result = evaluate(
                        part.module,
                        name,
                        Signature(),
                        arch=request.arch,
                        options=request.options,
                        budget=budget,
                        dialect=dialect,
                        library=request.library,
                        assumptions=assumptions,
                        known_calls=known,
                        states=self._states,
                    )
                spent += result.steps
                taken += 1
                return result

            def settles(runs: list[sampling.Run]) -> bool:
                if request.describes or request.possible or file != self._facts.file:
                    return False
                entered = outermost({name}.union(*(run.result.entered for run in runs)))
                return sampling.refutes_all(runs, judge, calls_inside(self._facts, entered), file)

            sampled = [sampling.first(once)] if request.light else sampling.runs(once, settles)
            results = [run.result for run in sampled]
            depends = outermost({name}.union(*(item.called for item in results)))
            numbers = numbers_in(part.module.function(item) for item in depends)
            common = common_variables(sampled) if request.describes else {}
            certain = () if request.light else sampling.certain(sampled, once, judge, numbers)
            findings = [reached(file, result, item) for result, item in certain]
            if request.possible:
                findings += [reached(file, result, item) for result, item in possible(sampled, once)]
            found = KernelEvaluation(
                findings=tuple(findings),
                variables=results[0].types if request.light else common,
                depends=depends,
                reads={place: stamp for item in results for place, stamp in item.reads.items()},
                reach=joined(reach_of(item, assumed=True) for item in results),
                unentered=_obstacle(results),
                steps=spent,
                module_steps=results[0].module_steps,
                runs=taken,
            )
            self._cache.keep(key, part.blocks, found, found.depends)
            if node is not None:
                self._equal.keep(shape, node, found)
        self._sampled += is_new
        self._runs += is_new * found.runs
        self._charge(part, found.steps, found.module_steps)
        self._known.append(Examination(variables=found.variables, reach=found.reach))
        self._entered |= found.reach.entered
        self._findings += [item for item in found.findings if is_kernel or self._may_be_of_kernels(item)]
        if name not in found.reach.entered:
            self._excused[name] = found.unentered

    def _may_be_of_kernels(self, item: Diagnostic) -> bool:
        """Return whether a finding in a function that no kernel calls is about tensors of NKI.

        Those on operands are; methods and names of values elsewhere may be those of a framework's tensors.
        """
        facts = self._facts
        if item.code not in NEEDS_NKI or item.span is None:
            return True
        tops = [node for node in facts.tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
        around = [node.name for node in tops if node.lineno <= item.line <= (node.end_lineno or 0)]
        return item.file == facts.file and bool(facts.functions_around(item.line) or calls_inside(facts, around))

    def _leave_out(self, function: KernelFunction) -> None:
        """Note a function without shapes that is not evaluated any more."""
        self._excused[function.node.name] = "no-steps"
        self._unsampled.append(function)

    def _leave_out_parts(self, parts: Sequence[Part]) -> None:
        """Note the kernels that are in none of the parts."""
        reached = {kernel.node for part in parts for kernel in part.kernels}
        left_out = [item for item in self._facts.functions if item.is_entry and item.node not in reached]
        self._excused |= dict.fromkeys((item.node.name for item in left_out), "no-steps")
        if left_out:
            self._findings.append(messages.bound_again(self._facts, left_out))

    def _evaluate_helpers(self) -> None:
        """Evaluate the functions of a module with NKI that no evaluation entered, but for those that launch kernels.

        They are evaluated as other files call them, through the kernels of other files, or with assumed arguments.
        """
        facts = self._facts
        if facts.dialect is None:
            return
        part = Part(facts.parsed, (), blocks_of(facts.parsed))
        reached = {item.node: item.dialect for item in facts.functions}
        helpers: dict[str, KernelFunction] = {}
        kernels = {item.node for item in facts.functions if item.is_entry}
        left_out = {item.node for item in self._unsampled}
        for node in facts.tree.body:
            if not isinstance(node, ast.FunctionDef) or node in left_out:
                continue
            dialect = reached.get(node, facts.dialect)
            if node not in kernels and not _is_foreign(dialect) and part.module.function(node.name) is node:
                self._evaluate_recorded(part, KernelFunction(node=node, dialect=dialect, kernel=node))
            if node.name in self._entered:
                continue
            host = node not in reached and (node.name in self._on_host or node.name.startswith("test"))
            if host:
                self._excused[node.name] = "on-host"
            elif _is_foreign(dialect):
                self._excused[node.name] = "other-dialect"
            else:
                helpers[node.name] = KernelFunction(node=node, dialect=dialect, kernel=node)
        found = self._called_elsewhere(frozenset(helpers))
        for name, helper in helpers.items():
            self._evaluate_all(part, helper, found.get(name, ()), inner=True)
        for name, helper in helpers.items():
            if name not in self._entered:
                self._sample(part, helper)
        self._evaluate_through(frozenset(helpers).difference(found))

    def _evaluate_through(self, helpers: frozenset[str]) -> None:
        """Evaluate kernels of other files that call functions of this one: what they find here is found here."""
        facts, request, count = self._facts, self._request, 0
        for module, path in found_calls.reaching(facts.file, helpers, request.library) if helpers else ():
            saved = request.library.load(request.library.place(facts.file), {}, facts.file)
            if saved is None:
                return
            kernels = [item.node.name for item in facts_of(module).functions if item.is_entry]
            own = calls_in(module, path, request.library, request.budget.stop).own
            lacking = frozenset(name for name in kernels if not own.get(name))
            other = called_elsewhere(module.file, lacking, request.library, self._cache, request.budget.stop)
            for name in kernels:
                signatures, kernel = own.get(name) or other.get(name), found_calls.function_of(module, name)
                if not signatures or kernel is None or _is_foreign(kernel.dialect):
                    continue
                count += 1
                if count > found_calls.MOST_KERNELS:
                    return
                part = Part(module, (kernel,), blocks_of(module))
                result = self._evaluate_call(part, kernel, signatures[0])
                if result is not None and result is not _LATE:
                    here = found_calls.as_typed(result.findings, facts.file, saved.lines, facts.lines)
                    self._findings += [messages.named(facts, kernel, signatures[0], item) for item in here]
                    if saved.text == facts.parsed.text:
                        self._known.append(Examination(reach=replace(result.reach, entered=frozenset())))

    def _evaluate_others(self, called: Launches) -> None:
        """Evaluate the kernels of other modules that this one calls."""
        for (file, name), signatures in called.other.items():
            module = called.modules[file]
            kernel = found_calls.function_of(module, name)
            if kernel is None or _is_foreign(kernel.dialect):
                continue
            self._evaluate_other(Part(module, (kernel,), blocks_of(module)), kernel, signatures)

    def _evaluate_made_elsewhere(self, part: Part, called: Launches) -> None:
        """Evaluate the kernels that functions of other modules make, and that this one launches."""
        for (file, name), signatures in called.made.items():
            if file == part.module.file:
                continue
            facts = facts_of(called.modules[file])
            for node, maker in made_kernels(facts).items():
                dialect = next(item.dialect for item in facts.functions if item.node is node)
                if maker[1] == name and not _is_foreign(dialect):
                    self._made[node] = maker
                    self._evaluate_other(part, KernelFunction(node=node, dialect=dialect, kernel=node), signatures)

    def _evaluate_other(self, part: Part, kernel: KernelFunction, signatures: Iterable[Signature]) -> None:
        """Evaluate a kernel of another module as this one calls it."""
        found = ((signature, self._evaluate_call(part, kernel, signature)) for signature in signatures)
        asked = [(signature, item) for signature, item in found if item is not None and item is not _LATE]
        self._known += [Examination(reach=replace(item.reach, entered=frozenset())) for _, item in asked]
        self._findings += under_signatures(self._facts, kernel, asked)

    def _request_for(self, part: Part, function: KernelFunction) -> EvaluationRequest:
        """Return the request for a function: in a notebook its cell may name a target."""
        file, _ = self._made.get(function.node, (part.module.file, ""))
        here = part.module.file == file == self._facts.file
        return self._request.at(function.node.lineno) if here else self._request

    # -- cached evaluations --------------------------------------------------------------------------------------------

    def launches(self, part: Part) -> Launches:
        """Return the calls of kernels in a part of the module."""
        top, request = tuple(sorted(part.top)), self._request
        if request.explicit is not None:
            return Launches(own=dict.fromkeys(top, (request.explicit,)), other={}, called=frozenset(), reads={})
        key = ("launches", top, len(part.blocks))
        found = self._cache.recall(key, part.blocks, part.module.file, Launches)
        if found is None or not request.library.holds(found.reads):
            budget = replace(HOST_BUDGET, stop=request.budget.stop)
            found = launches(part.module, top, budget, request.library)
            self._cache.keep(key, part.blocks, found, outermost(found.called))
        return found

    def signatures(self, part: Part, called: Launches) -> Mapping[str, Sequence[Signature]]:
        """Return the signatures of the kernels in a part of the module."""
        if self._request.explicit is not None:
            return called.own
        given = self._request.given
        return {name: (*given.get(name, ()), *called.own.get(name, ()))[:MOST] for name in part.top}

    def _evaluate(
        self,
        part: Part,
        kernel: KernelFunction,
        signature: Signature,
        request: EvaluationRequest | None = None,
        *,
        inner: bool = False,
        tells: bool = False,
    ) -> KernelEvaluation | None:
        """Return the evaluation of a kernel with a signature; None where the steps of the file are used up.

        A `request` takes the place of the module's. It `tells` early what it finds.
        """
        request = request or self._request_for(part, kernel)
        file, values = part.module.file, signature_key(signature)
        shape = (
            file,
            len(part.blocks),
            values,
            request.arch.target,
            request.options,
            request.budget,
            kernel.dialect,
            request.judged and not inner,
            inner,
            signature.assumed,
        )
        name, node = kernel.node.name, part.module.function(kernel.node.name)
        maker = self._made[kernel.node] if signature.launch >= 0 else None
        if maker is not None:
            name, node = " ".join(maker), None
        key = (*shape, name)
        if self._left <= 0:
            return None
        left = self._left + self._charged.get((file, len(part.blocks)), 0)
        allowed = min(request.budget.steps, left, found_calls.STEPS if signature.assumed else left)
        found = None if values is None else self._cache.recall(key, part.blocks, file, KernelEvaluation)
        if found is None or not found.is_within(allowed) or not request.library.holds(found.reads):
            shared = (*key, part.module.text, allowed)
            found = None if values is None else found_calls.recall(shared, request.library)
            if found is None and values is not None and node is not None:
                found = self._equal.recall((*shape, allowed), node)
            if found is None:
                told = partial(self._tell, kernel, signature) if tells and request.early is not None else None
                budget = replace(request.budget, steps=allowed, told=told)
                known = self._cache.calls((request.arch.target, request.options, replace(budget, steps=0)))
                found = evaluation_of(
                    part.module,
                    kernel,
                    signature,
                    replace(request, budget=budget),
                    known,
                    self._states,
                    inner=inner,
                    host=None if maker is None else (self._host_of(part), maker),
                )
            if values is not None:
                found_calls.keep(shared, found)
                if node is not None:
                    self._equal.keep((*shape, allowed), node, found)
                self._cache.keep(key, part.blocks, found, found.depends)
        self._charge(part, found.steps - found.module_steps, found.module_steps)
        return found

    def _host_of(self, part: Part) -> HostRun:
        """Return the run of the code that launches the kernels of a part of the module."""
        request = self._request
        if self._host is None or self._host[0] is not part.module:
            budget = replace(HOST_BUDGET, stop=request.budget.stop)
            self._host = part.module, HostRun(part.module, budget, request.library)
        return self._host[1]

    def _tell(self, kernel: KernelFunction, signature: Signature, found: Iterable[Diagnostic]) -> None:
        """Give what the evaluation of a kernel has found so far, beside the findings before it."""
        assert self._request.early is not None  # else nothing is told
        named = (messages.named(self._facts, kernel, signature, item) for item in found)
        self._request.early(chain(self._findings, self._sure, named))

    def _charge(self, part: Part, own: int, module: int) -> None:
        """Use steps of the file's: those of a function's `own`, and once those of its module's statements."""
        place = (part.module.file, len(part.blocks))
        self._left -= own if place in self._charged else own + module
        self._charged.setdefault(place, module)


_LATE: Final = KernelEvaluation(depends=frozenset())
"""Stands for an evaluation for which there is no time."""


def _is_foreign(dialect: Dialect) -> bool:
    """Return whether a dialect is Beta 1, and nothing evaluates it here."""
    return dialect == "beta1" and beta1_dialect() is None


def _joined(tables: Iterable[Mapping[Place, Variable]]) -> dict[Place, Variable]:
    """Return what names stand for in all evaluations, at each place in the words of the first."""
    found: dict[Place, Variable] = {}
    for place, variable in chain.from_iterable(table.items() for table in tables):
        known = found.get(place)
        found[place] = variable if known is None else known.joined(variable)
    return found


def _first(tables: Iterable[Mapping[Place, V]]) -> dict[Place, V]:
    """Return the entries of all tables; of several entries at one place the first."""
    return {place: value for table in reversed(list(tables)) for place, value in table.items()}


def _obstacle(results: Iterable[Evaluation]) -> str:
    """Return why runs did not enter the function that they were to evaluate."""
    codes = {item.code for result in results for item in result.diagnostics}
    if "NKI122" not in codes:
        return "no-arguments"
    return "long-module" if "NKI120" in codes else "made-elsewhere"
