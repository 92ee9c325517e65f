/** Iterations of loops: choosing one, going from one to the next, and what is folded. */
import * as format from './format';
import { whole } from './store';
import type { Context, IterationFacts, Run, Span, Store } from './types';

/** A set with a name that was not in it, or without one that was. */
export function toggled(names: ReadonlySet<string>, name: string): ReadonlySet<string> {
  const next = new Set(names);
  if (!next.delete(name)) next.add(name);
  return next;
}

/** From the begin of an iteration to the end of one, of all that run in between. */
export function spanOfIterations(run: Run, first: number, last: number): Span | null {
  const track = run.loopTrack;
  if (track === null) return null;
  return { from: Math.min(track.begin(first), track.begin(last)), to: Math.max(track.end(first), track.end(last)) };
}

/** "i = 3, iteration 4 of 40, 1.44 µs, steady". */
export function iterationText({ loop, value, place, interval, state }: IterationFacts): string {
  const which = `iteration ${format.count(place + 1)} of ${format.count(loop.iterations)}`;
  return [`${loop.variable} = ${value}`, which, format.time(interval), state].join(', ');
}

/** The iteration that begins and ends with a range; -1: none. */
export function iterationOfSpan(run: Run, area: Span): number {
  const track = run.loopTrack;
  if (track === null) return -1;
  const { start, first, iteration: innermost } = run.rows;
  for (let step = run.stepAt(area.from); run.has(step) && start[step - first] === area.from; step--) {
    const around = run.iterationsAround(innermost[step - first]);
    const found = around.find(one => track.begin(one) === area.from && track.end(one) === area.to);
    if (found !== undefined) return found;
  }
  return -1;
}

/** "i = 1, j = 0": an iteration with those around it. */
export function iterationName(run: Run, iteration: number): string {
  const track = run.loopTrack;
  if (track === null) return '';
  const around = [...run.iterationsAround(iteration)].reverse().map(one => track.facts(one));
  return around.map(({ loop, value }) => `${loop.variable} = ${value}`).join(', ');
}

/** Mark the time of iterations, and go to their begin. */
export function chooseIterations(
  { run, store, speak }: Pick<Context, 'run' | 'store' | 'speak'>,
  first: number,
  last = first,
): void {
  const span = spanOfIterations(run, first, last);
  if (span === null || run.loopTrack === null) return;
  store.goTo(span.from);
  store.set({ selected: -1, area: span });
  if (first === last) speak(iterationText(run.loopTrack.facts(first)));
}

/** The iteration that the marked area is, else the innermost one around the current step; -1: none. */
export function currentIteration(run: Run, store: Store): number {
  const { step, area } = store.state;
  if (run.loopTrack === null || !run.has(step)) return -1;
  const around = iterationsAround(run, step);
  return around.find(iteration => isArea(run, iteration, area)) ?? around[0] ?? -1;
}

/** The iterations around a step, innermost first. */
function iterationsAround(run: Run, step: number): readonly number[] {
  const innermost = run.rows.iteration[step - run.rows.first];
  return run.iterationsAround(innermost).filter(iteration => (run.loopTrack?.loopOf(iteration) ?? -1) >= 0);
}

function isArea(run: Run, iteration: number, area: Span | null): boolean {
  const track = run.loopTrack;
  return area !== null && track?.begin(iteration) === area.from && track.end(iteration) === area.to;
}

/** Go to the same line of the next or previous iteration, or to its begin; false where there is none. */
export function nextIteration(context: Pick<Context, 'run' | 'store' | 'speak'>, by: 1 | -1): boolean {
  const { run, store } = context;
  const here = currentIteration(run, store);
  const target = here < 0 ? -1 : (run.loopTrack?.next(here, by) ?? -1);
  if (target < 0) return false;
  chooseIterations(context, target);
  const step = firstStepOf(run, target);
  if (step >= 0) store.set({ step, time: run.rows.start[step - run.rows.first] });
  return true;
}

/** The first loaded step of an iteration; -1: none is loaded. */
function firstStepOf(run: Run, iteration: number): number {
  const track = run.loopTrack;
  if (track === null) return -1;
  const { first, count, start, iteration: innermost } = run.rows;
  const begin = track.begin(iteration);
  let low = 0;
  for (let high = count; low < high;) {
    const middle = (low + high) >> 1;
    if (start[middle] < begin) low = middle + 1;
    else high = middle;
  }
  for (let place = low; place < count && start[place] <= track.end(iteration); place++)
    if (run.iterationsAround(innermost[place]).includes(iteration)) return first + place;
  return -1;
}

/** Zoom to the iteration around the current step; where that is shown, to the one around it, at last to all. */
export function zoomToIteration({ run, store, speak }: Pick<Context, 'run' | 'store' | 'speak'>): boolean {
  const { step, window } = store.state;
  const track = run.loopTrack;
  if (track === null || !run.has(step)) return false;
  const around = iterationsAround(run, step);
  if (around.length === 0) return false;
  const windows = around.map(iteration => {
    const room = 0.05 * (track.end(iteration) - track.begin(iteration));
    return { from: track.begin(iteration) - room, to: track.end(iteration) + room };
  });
  const target = windows.findIndex(wanted => isNear(window, wanted)) + 1;
  store.show(windows[target] ?? whole(run), true);
  speak(target < windows.length ? iterationText(track.facts(around[target])) : 'Whole run');
  return true;
}

function isNear(one: Span, other: Span): boolean {
  const width = other.to - other.from;
  return Math.abs(one.from - other.from) < 0.05 * width && Math.abs(one.to - other.to) < 0.05 * width;
}

/** Fold all ranks, or without ranks the outermost loops, or unfold what is folded; the words for what was done. */
export function foldAll({ run, store }: Pick<Context, 'run' | 'store'>): string {
  if (store.state.folded.size > 0) {
    store.set({ folded: new Set() });
    return 'All unfolded';
  }
  const ranks = Array.from({ length: run.ranks > 1 ? run.ranks : 0 }, (_, rank) => `rank ${rank}`);
  const loops = (run.loopTrack?.loops ?? []).filter(loop => loop.depth === 0).map(loop => `loops ${loop.core} 0`);
  const names = ranks.length > 0 ? ranks : loops;
  if (names.length === 0) return 'Nothing to fold';
  store.set({ folded: new Set(names) });
  return ranks.length > 0 ? 'Ranks folded' : 'Loops folded';
}
