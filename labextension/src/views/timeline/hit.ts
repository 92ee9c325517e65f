/** What is at a place of the timeline. */
import { countWhile } from '../../run/search';
import type { Bar, Wait } from './bars';
import { barTop, type Figure } from './figure';
import type { LoopCell } from './loop_rows';
import type { Piece } from './path';
import { type DmaStrip, type LaneStrip, type LoopStrip, type Strip } from './strips';

/** Bars narrower than this are hit within this width around them; the nearest one is. */
export const HALO = 6;

/** `lane` of a bar is -1 where it stands for rows of several lanes. */
export type Hit =
  | { readonly kind: 'bar'; readonly strip: LaneStrip | DmaStrip; readonly lane: number; readonly bar: Bar }
  | { readonly kind: 'wait'; readonly strip: LaneStrip; readonly lane: number; readonly wait: Wait }
  | { readonly kind: 'column'; readonly strip: LaneStrip | DmaStrip; readonly lane: number; readonly column: number }
  | { readonly kind: 'lane'; readonly strip: LaneStrip | DmaStrip; readonly lane: number }
  | { readonly kind: 'loop'; readonly strip: LoopStrip; readonly cell: LoopCell }
  | { readonly kind: 'path'; readonly step: number; readonly piece: Piece }
  | { readonly kind: 'other'; readonly strip: Strip }
  | { readonly kind: 'none' };

const NONE: Hit = { kind: 'none' };

/** `x` counts from the left end of the window, `y` from the top of the axis. */
export function hitAt(figure: Figure, x: number, y: number): Hit {
  const strip = figure.strips.find(one => y >= one.top && y < one.top + one.height);
  if (strip === undefined || x < 0 || x >= figure.scale.width) return NONE;
  switch (strip.kind) {
    case 'lane':
      return hitLane(figure, strip, x, y);
    case 'dma':
      return hitDma(figure, strip, x, y);
    case 'path':
      return hitPath(figure, strip, x);
    case 'loop':
      return hitLoop(figure, strip, x);
    case 'axis':
    case 'rank':
    case 'core':
    case 'counter':
    case 'flow':
      return { kind: 'other', strip };
  }
}

function hitLane(figure: Figure, strip: LaneStrip, x: number, y: number): Hit {
  const found = figure.lanes.get(strip);
  const lane = strip.lane.id;
  if (found?.columns) return { kind: 'column', strip, lane, column: Math.floor(x) };
  const bar = nearest(found?.bars?.bars ?? [], x);
  if (bar !== null) return { kind: 'bar', strip, lane, bar };
  const wait = containing(found?.bars?.waits ?? [], x);
  if (wait !== null && y >= barTop(strip)) return { kind: 'wait', strip, lane, wait };
  return { kind: 'lane', strip, lane };
}

function hitDma(figure: Figure, strip: DmaStrip, x: number, y: number): Hit {
  const found = figure.dma.get(strip);
  if (strip.pitch > 0 && y >= strip.queues) return hitQueue(figure, strip, x, y);
  const lane = strip.lanes[0].id;
  if (found?.columns) return { kind: 'column', strip, lane, column: Math.floor(x) };
  const track = Math.max(
    0,
    strip.tracks.findLastIndex(top => y >= top - 1),
  );
  const bar = nearest(found?.tracks?.[track]?.bars ?? [], x);
  if (bar === null) return { kind: 'lane', strip, lane };
  const { rows } = figure.run;
  return { kind: 'bar', strip, lane: bar.count > 1 ? -1 : rows.lane[bar.step - rows.first], bar };
}

/** The thin rows are too low to be aimed at: of the row under the pointer and its neighbours, one with a bar there. */
function hitQueue(figure: Figure, strip: DmaStrip, x: number, y: number): Hit {
  const queues = figure.dma.get(strip)?.queues ?? [];
  const middle = Math.min(queues.length - 1, Math.floor((y - strip.queues) / strip.pitch));
  for (const number of [middle, middle - 1, middle + 1]) {
    const queue = queues[number];
    const bar = queue === undefined ? null : nearest(queue.bars?.bars ?? [], x);
    if (bar !== null) return { kind: 'bar', strip, lane: queue.lane, bar };
  }
  const lane = queues[middle]?.lane ?? strip.lanes[0].id;
  return queues[middle]?.columns
    ? { kind: 'column', strip, lane, column: Math.floor(x) }
    : { kind: 'lane', strip, lane };
}

function hitLoop(figure: Figure, strip: LoopStrip, x: number): Hit {
  const cell = nearest(figure.loops.get(strip) ?? [], x);
  return cell === null ? { kind: 'other', strip } : { kind: 'loop', strip, cell };
}

function hitPath(figure: Figure, strip: Strip, x: number): Hit {
  const piece = nearest(figure.path, x);
  return piece === null ? { kind: 'other', strip } : { kind: 'path', step: piece.step, piece };
}

interface Extent {
  readonly x: number;
  readonly width: number;
}

/** The piece at x, or the nearest one of the narrow ones with their halo. `pieces` lie in order of x, apart. */
export function nearest<T extends Extent>(pieces: readonly T[], x: number): T | null {
  const low = countWhile(pieces.length, place => pieces[place].x <= x);
  let best: T | null = null;
  let distance = Infinity;
  for (const piece of pieces.slice(Math.max(0, low - 3), low + 3)) {
    const beyond = Math.max(piece.x - x, x - piece.x - piece.width, 0);
    const reach = piece.width < HALO ? (HALO - piece.width) / 2 : 0;
    if (beyond > reach || beyond >= distance) continue;
    best = piece;
    distance = beyond;
  }
  return best;
}

function containing<T extends Extent>(pieces: readonly T[], x: number): T | null {
  return pieces.find(piece => x >= piece.x && x < piece.x + piece.width) ?? null;
}

/** The lane or queue nearest to y, for areas and keys. */
export function laneAtHeight(figure: Figure, y: number): number {
  const strip = figure.strips.find(one => y < one.top + one.height && (one.kind === 'lane' || one.kind === 'dma'));
  if (strip?.kind === 'lane') return strip.lane.id;
  return strip?.kind === 'dma' ? strip.lanes[0].id : -1;
}
