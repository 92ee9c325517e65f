/**
 * The DMA rows of a core: as many tracks as transfers overlap, up to a limit, on which they find a place in order of
 * start, and below them a thin row for each queue. What finds no track is counted, and stands out in its queue's row.
 * No critical transfer is without a track while another has one.
 */
import type { Lane, Rows, Run } from '../../types';
import { layoutBars, type LaneBars, type Steps, touching } from './bars';
import { type Columns, dense, layoutLane, type LaneFigure, pixels, share, together } from './columns';
import { type Scale, spanOf } from './zoom';

export const LEAST_TRACKS = 2;
export const MOST_TRACKS = 5;
/** More transfers than this for each pixel are never laid out one by one. */
const MOST_PER_PIXEL = 4;

export interface Track {
  readonly bars: LaneBars['bars'];
  /** Its rows in the window, in order. */
  readonly steps: Uint32Array;
}

export interface DmaFigure {
  readonly lanes: readonly number[];
  /** Share of the window in which any queue executes. */
  readonly busy: number;
  readonly tracks: readonly Track[] | null;
  /** Transfers that are on no track, in order. */
  readonly hidden: readonly number[];
  readonly columns: Columns | null;
  readonly queues: readonly LaneFigure[];
}

export function layoutDma(run: Run, lanes: readonly number[], scale: Scale, count: number): DmaFigure {
  const queues = lanes.map(lane => layoutLane(run, lane, scale));
  const parts = lanes.map(lane => inWindow(run, lane, scale));
  const rows = parts.reduce((sum, part) => sum + part.length, 0);
  const loaded = run.rows.count >= run.steps || queues.every(queue => queue.bars !== null);
  const tracks = (): DmaFigure => onTracks(run, { lanes, queues, steps: inOrder(parts, rows), count }, scale);
  if (loaded && rows <= scale.width) return tracks();
  const columns = sums(run, queues, scale);
  if (loaded && rows <= scale.width * MOST_PER_PIXEL && !dense(columns.rows)) return tracks();
  const starting = columns.rows.reduce((sum, count) => sum + count, 0);
  const merged = { sums: columns, count: starting };
  return { lanes, busy: busyOf(run, lanes, scale), tracks: null, hidden: [], columns: merged, queues };
}

/** Share of the window in which any of a core's queues executes. */
function busyOf(run: Run, lanes: readonly number[], scale: Scale): number {
  return share(run, run.dmaBusy(run.lanes[lanes[0]]?.core ?? 0, scale.from, scale.to), scale);
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

interface Given {
  readonly lanes: readonly number[];
  readonly queues: readonly LaneFigure[];
  readonly steps: Steps;
  /** How many tracks there are. */
  readonly count: number;
}

function onTracks(run: Run, { lanes, queues, steps, count }: Given, scale: Scale): DmaFigure {
  const { tracks, hidden } = packed(run, steps, spanOf(scale, 0.5), count);
  return {
    lanes,
    busy: busyOf(run, lanes, scale),
    tracks: tracks.map(track => ({ bars: layoutBars(run, -1, track, scale).bars, steps: Uint32Array.from(track) })),
    hidden,
    columns: null,
    queues,
  };
}

/**
 * Each row on the first of `count` tracks that is free when it starts; `slack` is overlap that nobody sees. A critical
 * row takes the place of one that is not, the one that began last.
 */
export function packed(
  run: Run,
  steps: Steps,
  slack: number,
  count: number,
): { tracks: number[][]; hidden: readonly number[] } {
  const tracks: number[][] = Array.from({ length: count }, () => []);
  const free = tracks.map(() => -Infinity);
  const { start, duration, critical, first } = run.rows;
  const hidden: number[] = [];
  for (const step of steps) {
    const begin = start[step - first];
    let track = free.findIndex(time => time <= begin + slack);
    if (track < 0 && critical[step - first] === 1) {
      const lasts = tracks.map(rows => rows.at(-1)!);
      track = lasts.indexOf(Math.max(...lasts.filter(last => critical[last - first] !== 1)));
      if (track >= 0) hidden.push(tracks[track].pop()!);
    }
    if (track < 0) {
      hidden.push(step);
      continue;
    }
    tracks[track].push(step);
    free[track] = begin + duration[step - first];
  }
  return { tracks, hidden: hidden.sort((one, other) => one - other) };
}

const known = new WeakMap<Rows, Map<number, number>>();

/** How many tracks the queues of a core need so that none of the loaded transfers hides another, within the limits. */
export function tracksFor(run: Run, queues: readonly Lane[]): number {
  let ofRun = known.get(run.rows);
  if (ofRun === undefined) known.set(run.rows, (ofRun = new Map<number, number>()));
  const key = queues[0]?.id ?? -1;
  let count = ofRun.get(key);
  if (count === undefined) {
    count = Math.min(Math.max(overlap(run, queues), LEAST_TRACKS), MOST_TRACKS);
    ofRun.set(key, count);
  }
  return count;
}

/** The most transfers that are in flight at once; at least the limit where there are more. */
function overlap(run: Run, queues: readonly Lane[]): number {
  const { start, duration, lane, count } = run.rows;
  const ends = run.lanes.map(() => -Infinity);
  const ids = queues.map(queue => queue.id);
  const isMine = run.lanes.map(one => ids.includes(one.id));
  let most = 0;
  for (let at = 0; at < count && most < MOST_TRACKS; at++) {
    if (!isMine[lane[at]] || duration[at] === 0) continue;
    ends[lane[at]] = start[at] + duration[at];
    let now = 0;
    for (const id of ids) if (ends[id] > start[at]) now++;
    most = Math.max(most, now);
  }
  return most;
}
