/** A run that the user stopped: up to when it was done, and how that is said. */
import * as format from './format';
import type { Run } from './types';

/** The picoseconds up to which a cancelled run was done; null of others. */
export function cancelledAt(run: Run): number | null {
  return number(run.summary.cancelled_ps);
}

/** "cancelled after 7 280 of 12 500 instructions"; '' of a run that was not. */
export function cancelledText(run: Run): string {
  const done = number(run.summary.cancelled);
  if (done === null) return '';
  return done >= run.steps
    ? `cancelled after ${format.plural(run.steps, 'instruction')}`
    : `cancelled after ${format.count(done)} of ${format.plural(run.steps, 'instruction')}`;
}

/** "5 220 not run"; '' where all were. */
export function notRunText(run: Run): string {
  const done = number(run.summary.cancelled);
  return done === null || done >= run.steps ? '' : `${format.count(run.steps - done)} not run`;
}

function number(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
