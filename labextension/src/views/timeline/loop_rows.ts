/** The iterations of loops on a row: cells, blocks of those too narrow for one, and whole executions where folded. */
import type { IterationState } from '../../_generated/schema';
import type { LoopTrack, Run } from '../../types';
import type { LoopStrip } from './strips';
import { type Scale, xOf } from './zoom';

/** Cells narrower than this are put together with their neighbours. */
const NARROW = 3;
/** Blocks are at most so wide, so that they show where in a loop its outliers are. */
const WIDEST_BLOCK = 6;

/** A piece of a loop row: an iteration, or some that follow each other. */
export interface LoopCell {
  readonly x: number;
  readonly width: number;
  /** Rows of the table of iterations: the first and the last of it. */
  readonly first: number;
  readonly last: number;
  readonly count: number;
  /** 'mixed' of several that differ. */
  readonly state: IterationState | 'mixed';
  readonly outliers: number;
  /** Where its first instruction starts, beside the work of the iteration before; at most `x`. */
  readonly lead: number;
  /** Of a whole execution: where its warm-up ends, its representative iteration, and its outliers. */
  readonly whole: Whole | null;
}

interface Whole {
  readonly warmUntil: number;
  readonly representative: { readonly x: number; readonly width: number } | null;
  readonly outliers: readonly number[];
}

/** The pieces of a row in order of x, those outside of the window left out. */
export function layoutLoopRow(run: Run, strip: LoopStrip, scale: Scale): readonly LoopCell[] {
  const track = run.loopTrack;
  if (track === null) return [];
  const out: LoopCell[] = [];
  for (const loop of strip.loops) {
    const pieces = strip.folded
      ? executionsOf(track, loop.id, loop.representative, scale)
      : cellsOf(track, loop.id, scale);
    out.push(...merged(pieces, scale.width));
  }
  return out.sort((one, other) => one.x - other.x);
}

function* cellsOf(track: LoopTrack, loop: number, scale: Scale): Generator<LoopCell> {
  for (const iteration of track.iterations(loop)) {
    const end = track.end(iteration);
    const interval = track.interval(iteration);
    if (end < scale.from || end - interval > scale.to) continue;
    const x = xOf(scale, end - interval);
    yield {
      x,
      width: xOf(scale, end) - x,
      first: iteration,
      last: iteration,
      count: 1,
      state: track.state(iteration),
      outliers: track.state(iteration) === 'outlier' ? 1 : 0,
      lead: Math.min(x, xOf(scale, track.begin(iteration))),
      whole: null,
    };
  }
}

function* executionsOf(track: LoopTrack, loop: number, representative: number, scale: Scale): Generator<LoopCell> {
  const all = track.iterations(loop);
  for (let at = 0; at < all.length;) {
    const execution = track.execution(all[at]);
    let until = at + 1;
    while (until < all.length && track.execution(all[until]) === execution) until++;
    const mine = all.subarray(at, until);
    at = until;
    const begin = track.end(mine[0]) - track.interval(mine[0]);
    const end = mine.reduce((latest, iteration) => Math.max(latest, track.end(iteration)), 0);
    if (end < scale.from || begin > scale.to) continue;
    yield executionCell(track, mine, { begin, end, representative }, scale);
  }
}

function executionCell(
  track: LoopTrack,
  mine: Int32Array,
  { begin, end, representative }: { begin: number; end: number; representative: number },
  scale: Scale,
): LoopCell {
  const x = xOf(scale, begin);
  const states = new Set([...mine].map(iteration => track.state(iteration)));
  const warm = mine.findLast(iteration => track.state(iteration) === 'warm-up') ?? -1;
  const outliers = [...mine].filter(iteration => track.state(iteration) === 'outlier');
  const shown = mine.includes(representative);
  const from = shown ? xOf(scale, track.end(representative) - track.interval(representative)) : 0;
  return {
    x,
    width: xOf(scale, end) - x,
    first: mine[0],
    last: mine[mine.length - 1],
    count: mine.length,
    state: states.size === 1 ? track.state(mine[0]) : 'mixed',
    outliers: outliers.length,
    lead: x,
    whole: {
      warmUntil: warm < 0 ? x : xOf(scale, track.end(warm)),
      representative: shown ? { x: from, width: xOf(scale, track.end(representative)) - from } : null,
      outliers: outliers.map(iteration => xOf(scale, track.end(iteration) - track.interval(iteration) / 2)),
    },
  };
}

/** Pieces, narrow neighbours together. */
function* merged(pieces: Iterable<LoopCell>, width: number): Generator<LoopCell> {
  let block: LoopCell | null = null;
  for (const piece of pieces) {
    const joins: boolean =
      block !== null &&
      piece.width < NARROW &&
      block.width < WIDEST_BLOCK &&
      piece.x - block.x - block.width < 1 &&
      piece.x >= block.x - 1;
    if (joins && block !== null) {
      block = joined(block, piece);
      continue;
    }
    if (block !== null) yield block;
    block = null;
    if (piece.width >= NARROW || piece.x > width) yield piece;
    else block = piece;
  }
  if (block !== null) yield block;
}

function joined(block: LoopCell, piece: LoopCell): LoopCell {
  return {
    ...block,
    width: Math.max(block.width, piece.x + piece.width - block.x),
    last: piece.last,
    count: block.count + piece.count,
    state: block.state === piece.state ? block.state : 'mixed',
    outliers: block.outliers + piece.outliers,
    whole: null,
  };
}
