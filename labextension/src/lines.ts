/** From a line of source to its steps. */
import { firstFrom } from './run/search';
import type { Run, State, Store } from './types';

export interface Line {
  readonly source: number;
  readonly line: number;
}

/** Select a line, and of its steps the one nearest to the cursor; its source comes in sight. */
export function toLine(run: Run, store: Store, line: Line): void {
  const step = nearestStep(run, store.state, line);
  if (step >= 0) store.select(step);
  store.set({ line, panel: 'source' });
}

/** The first step of a line that starts at or after the cursor, else its last; -1: it has none. */
export function nearestStep(run: Run, state: State, { source, line }: Line): number {
  const steps = run.stepsAtLine(source, line);
  if (!steps.length) return -1;
  const place = firstFrom(steps, state.step);
  return steps[Math.min(place, steps.length - 1)];
}

/** The step of a line after or before a step, round the ends; -1: it has none. */
export function nextAtLine(run: Run, step: number, { source, line }: Line, by: 1 | -1): number {
  const steps = run.stepsAtLine(source, line);
  if (!steps.length) return -1;
  const place = by > 0 ? firstFrom(steps, step + 1) : firstFrom(steps, step) - 1;
  return steps[(place + steps.length) % steps.length];
}
