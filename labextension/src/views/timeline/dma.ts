/**
 * The DMA rows of a core: two tracks, on which transfers find a place in order of start, and below them a thin row for
 * each queue. What overlaps more than one other has no place on the tracks, is counted, and is seen in its queue's row.
 */
import type { Run } from '../../types';
import { layoutBars, type LaneBars, type Steps, touching } from './bars';
import { type Columns, dense, layoutLane, type LaneFigure, pixels, share, together } from './columns';
import { type Scale, spanOf } from './zoom';

export const TRACKS = 2;
/** More transfers than this for each pixel are never laid out one by one. */
const MOST_PER_PIXEL = 4;

export interface Track {
  readonly bars: LaneBars['bars'];
  /** Its rows in the window, in order. */
  readonly steps: Uint32Array;
}

export interface DmaFigure {
  readonly lanes: readonly number[];
  /** Share of the window in which at least one queue works; the sum of all, at most 1, where there are columns. */
  readonly busy: number;
  readonly tracks: readonly Track[] | null;
  /** Transfers that are on no track. */
  readonly hidden: number;
  readonly columns: Columns | null;
  readonly queues: readonly LaneFigure[];
}

export function layoutDma(run: Run, lanes: readonly number[], scale: Scale): DmaFigure {
  const queues = lanes.map(lane => layoutLane(run, lane, scale));
  const parts = lanes.map(lane => inWindow(run, lane, scale));
  const rows = parts.reduce((sum, part) => sum + part.length, 0);
  const loaded = run.rows.count >= run.steps || queues.every(queue => queue.bars !== null);
  const tracks = (): DmaFigure => onTracks(run, lanes, queues, inOrder(parts, rows), scale);
  if (loaded && rows <= scale.width) return tracks();
  const columns = sums(run, queues, scale);
  if (loaded && rows <= scale.width * MOST_PER_PIXEL && !dense(columns.rows)) return tracks();
  let busy = 0;
  let count = 0;
  for (let at = 0; at < columns.count; at++) {
    busy += columns.busy[at];
    count += columns.rows[at];
  }
  return { lanes, busy: share(busy, scale), tracks: null, hidden: 0, columns: { sums: columns, count }, queues };
}

function sums(run: Run, queues: readonly LaneFigure[], scale: Scale): Columns['sums'] {
  const of = (queue: LaneFigure): Columns['sums'] =>
    queue.columns?.sums ?? run.buckets(queue.lane, scale.from, scale.to, pixels(scale));
  return together(queues.map(of));
}

/** The rows of a lane that touch the window. */
function inWindow(run: Run, lane: number, scale: Scale): Uint32Array {
  const steps = run.laneSteps(lane);
  return steps.subarray(...touching(run, steps, scale.from, scale.to));
}

/** All of them in order of start: steps are numbered in that order. */
function inOrder(parts: readonly Uint32Array[], count: number): Uint32Array {
  const all = new Uint32Array(count);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all.sort();
}

function onTracks(
  run: Run,
  lanes: readonly number[],
  queues: readonly LaneFigure[],
  steps: Steps,
  scale: Scale,
): DmaFigure {
  const { tracks, hidden } = packed(run, steps, spanOf(scale, 0.5));
  return {
    lanes,
    busy: share(covered(run, steps, scale), scale),
    tracks: tracks.map(track => ({ bars: layoutBars(run, -1, track, scale).bars, steps: Uint32Array.from(track) })),
    hidden,
    columns: null,
    queues,
  };
}

/** Each row on the first track that is free when it starts; `slack` is overlap that nobody sees. */
export function packed(run: Run, steps: Steps, slack: number): { tracks: number[][]; hidden: number } {
  const tracks: number[][] = Array.from({ length: TRACKS }, () => []);
  const free = tracks.map(() => -Infinity);
  const { start, duration, first } = run.rows;
  let hidden = 0;
  for (const step of steps) {
    const begin = start[step - first];
    const track = free.findIndex(time => time <= begin + slack);
    if (track < 0) {
      hidden++;
      continue;
    }
    tracks[track].push(step);
    free[track] = begin + duration[step - first];
  }
  return { tracks, hidden };
}

/** Time within the window in which at least one of the rows runs. */
export function covered(run: Run, steps: Steps, scale: Scale): number {
  const { start, duration, first } = run.rows;
  let sum = 0;
  let until = scale.from;
  for (const step of steps) {
    const begin = Math.max(until, start[step - first]);
    const end = Math.min(scale.to, start[step - first] + duration[step - first]);
    if (end <= begin) continue;
    sum += end - begin;
    until = end;
  }
  return sum;
}
