/** Where a user was in a view that gives its place to another one of the same run: a live run becomes the finished one. */
import type { Run, State } from './types';

interface Left {
  readonly kernel: string;
  readonly steps: number;
  readonly makespan: number;
  readonly state: State;
}

/** The page's: the widget and the renderer of saved runs are different scripts. */
const KEY = Symbol.for('nki-lab.left');

function all(): WeakMap<Element, Left> {
  const page = globalThis as unknown as Record<symbol, WeakMap<Element, Left> | undefined>;
  return (page[KEY] ??= new WeakMap<Element, Left>());
}

/** The outputs of a cell; what is drawn in their place follows each other. */
export function placeOf(root: Element): Element | null {
  return root.closest('.jp-OutputArea, .output_area, .cell-output') ?? root.parentElement;
}

/** Keep the state of a run that leaves its place. */
export function leave(place: Element | null, run: Run, state: State): void {
  if (place !== null) all().set(place, { kernel: run.kernel, steps: run.steps, makespan: run.makespan, state });
}

/** The part of the state that was left there, if it was of the same instructions at the same times. */
export function taken(place: Element | null, run: Run): Partial<State> | null {
  const left = place === null ? undefined : all().get(place);
  if (place === null || left === undefined) return null;
  all().delete(place);
  if (left.kernel !== run.kernel || left.steps !== run.steps || left.makespan !== run.makespan) return null;
  const { time, step, selected, line, window, area, tab, panel, colourBy, showCritical, usedRange } = left.state;
  return { time, step, selected, line, window, area, tab, panel, colourBy, showCritical, usedRange };
}
