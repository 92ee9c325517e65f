/** The critical path as a row: work in the hue of the lane that had it, waits in the hue of what is waited for. */
import { pathPieces, WORKS, type PathPieces } from '../../run/path';
import { upper } from '../../run/search';
import type { Hue, Run } from '../../types';
import { JOINING_GAP, OWN_BAR } from './bars';
import { type Scale, spanOf, xOf } from './zoom';

export interface Piece {
  readonly x: number;
  readonly width: number;
  readonly hue: Hue;
  /** The first of the rows that it stands for. */
  readonly step: number;
  /** How many works or waits it stands for. */
  readonly count: number;
  /** What is waited for, a number of `stalls`; `WORKS` for work. */
  readonly reason: number;
  /** Its times, of which the window may show a part. */
  readonly from: number;
  readonly to: number;
}

/** So many pieces within one pixel are looked at for the one with most time. */
const LOOKED_AT = 32;
/** Pieces are cut so far outside the window. */
const BEYOND = 4;

export function layoutPath(run: Run, scale: Scale): Piece[] {
  const all = pathPieces(run);
  const joining = spanOf(scale, JOINING_GAP);
  const own = spanOf(scale, OWN_BAR);
  const found: Omit<Piece, 'x' | 'width'>[] = [];
  const end = upper(all.begin, all.count, scale.to);
  for (let at = Math.max(0, upper(all.end, all.count, scale.from)); at < end;) {
    const next = sameBlur(all, at, end, joining);
    const main = longest(all, at, next);
    const [step, reason] = [all.step[main], all.reason[main]];
    const hue = hueOf(run, step, reason);
    const [from, to] = [all.begin[at], all.end[next - 1]];
    const before = found.at(-1);
    const isSmall = to - from < own;
    if (isSmall && before?.hue === hue && (before.reason === WORKS) === (reason === WORKS) && joins(before, own)) {
      found[found.length - 1] = { ...before, to, count: before.count + next - at };
    } else found.push({ from, to, hue, step: next - at === 1 ? all.step[at] : step, count: next - at, reason });
    at = next;
  }
  return found.map(piece => {
    const x = Math.max(-BEYOND, xOf(scale, piece.from));
    return { ...piece, x, width: Math.min(scale.width + BEYOND, xOf(scale, piece.to)) - x };
  });
}

/** Only what is made of pieces without a bar of their own grows. */
function joins(piece: Omit<Piece, 'x' | 'width'>, own: number): boolean {
  return (piece.to - piece.from) / piece.count < own;
}

function hueOf(run: Run, step: number, reason: number): Hue {
  return reason === WORKS ? run.lanes[run.rows.lane[step - run.rows.first]].hue : run.stallHue(step, reason);
}

/** The end of the pieces from a place on that all end before the same pixel does; at least one. */
function sameBlur({ begin, end }: PathPieces, at: number, limit: number, pixel: number): number {
  const until = begin[at] + pixel;
  let stride = 1;
  while (at + stride < limit && end[at + stride] < until) stride *= 2;
  let low = at + (stride >> 1);
  let high = Math.min(at + stride, limit);
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (end[middle] < until) low = middle;
    else high = middle;
  }
  return Math.max(high, at + 1);
}

function longest({ begin, end }: PathPieces, from: number, to: number): number {
  let best = from;
  for (let at = from + 1; at < Math.min(to, from + LOOKED_AT); at++) {
    if (end[at] - begin[at] > end[best] - begin[best]) best = at;
  }
  return best;
}
