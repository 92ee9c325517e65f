/** The critical path as a row of pieces, each in the hue of the lane that had it; what is between is waiting. */
import type { Hue, Run } from '../../types';
import { JOINING_GAP, OWN_BAR, touching } from './bars';
import { type Scale, spanOf, xOf } from './zoom';

export interface Piece {
  readonly x: number;
  readonly width: number;
  readonly hue: Hue;
  /** The first of the rows it stands for. */
  readonly step: number;
  readonly count: number;
}

/** So many rows within one pixel are looked at for the one with most time. */
const LOOKED_AT = 32;

export function layoutPath(run: Run, scale: Scale): Piece[] {
  const steps = run.criticalPath;
  const { start, duration, lane, first } = run.rows;
  const [begin, end] = touching(run, steps, scale.from, scale.to);
  const joining = spanOf(scale, JOINING_GAP);
  const own = spanOf(scale, OWN_BAR);
  const pieces: { from: number; to: number; hue: Hue; step: number; count: number; small: boolean }[] = [];
  for (let at = begin; at < end;) {
    const next = sameBlur(run, at, end, joining);
    const main = longest(run, at, next);
    const from = start[steps[at] - first];
    const place = steps[next - 1] - first;
    const to = start[place] + duration[place];
    const hue = run.lanes[lane[main - first]].hue;
    const small = to - from < own;
    const before = pieces.at(-1);
    if (small && before?.small === true && before.hue === hue && from - before.to < joining) {
      before.to = to;
      before.count += next - at;
    } else pieces.push({ from, to, hue, step: steps[at], count: next - at, small });
    at = next;
  }
  return pieces.map(({ from, to, hue, step, count }) => {
    const x = Math.max(-4, xOf(scale, from));
    return { x, width: Math.min(scale.width + 4, xOf(scale, to)) - x, hue, step, count };
  });
}

/** The end of the rows from a place on that all end before the same pixel does; at least one. */
function sameBlur(run: Run, at: number, limit: number, pixel: number): number {
  const steps = run.criticalPath;
  const { start, duration, first } = run.rows;
  const until = start[steps[at] - first] + pixel;
  const ends = (place: number): number => start[steps[place] - first] + duration[steps[place] - first];
  let stride = 1;
  while (at + stride < limit && ends(at + stride) < until) stride *= 2;
  let low = at + (stride >> 1);
  let high = Math.min(at + stride, limit);
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (ends(middle) < until) low = middle;
    else high = middle;
  }
  return Math.max(high, at + 1);
}

function longest(run: Run, from: number, to: number): number {
  const steps = run.criticalPath;
  const { duration, first } = run.rows;
  let best = steps[from];
  for (let at = from + 1; at < Math.min(to, from + LOOKED_AT); at++) {
    if (duration[steps[at] - first] > duration[best - first]) best = steps[at]!;
  }
  return best;
}
