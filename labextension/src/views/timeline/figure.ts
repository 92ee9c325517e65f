/** All that the timeline shows of a window, laid out: what painting, hit testing and the gutter read. */
import { indexOf } from '../../run/search';
import type { Rows, Run } from '../../types';
import { after } from './bars';
import { type Curve, rateCurve, usageCurve } from './counters';
import { layoutLane, type LaneFigure } from './columns';
import { type DmaFigure, layoutDma } from './dma';
import { flowCurve, type FlowCurve } from './flows';
import { type LoopCell, layoutLoopRow } from './loop_rows';
import { layoutPath, type Piece } from './path';
import { type RankDensity, rankDensities } from './rank_rows';
import {
  type CounterStrip,
  type DmaStrip,
  type FlowStrip,
  type LaneStrip,
  type Layout,
  type LoopStrip,
  type RankStrip,
  SIZES,
  type Strip,
} from './strips';
import { layoutTransfers, type TransferLine } from './transfers';
import { type Scale, xOf } from './zoom';

export interface Figure extends Layout {
  readonly run: Run;
  /** The rows of the run that it was laid out with. */
  readonly rows: Rows;
  readonly scale: Scale;
  readonly path: readonly Piece[];
  readonly lanes: ReadonlyMap<LaneStrip, LaneFigure>;
  readonly dma: ReadonlyMap<DmaStrip, DmaFigure>;
  readonly curves: ReadonlyMap<Strip, Curve>;
  readonly flows: ReadonlyMap<FlowStrip, FlowCurve>;
  readonly loops: ReadonlyMap<LoopStrip, readonly LoopCell[]>;
  /** Folded ranks. */
  readonly ranks: ReadonlyMap<RankStrip, readonly RankDensity[]>;
  /** What ranks send each other in the window. */
  readonly transfers: { readonly lines: readonly TransferLine[]; readonly dense: boolean };
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export function layoutFigure(run: Run, layout: Layout, scale: Scale): Figure {
  const lanes = new Map<LaneStrip, LaneFigure>();
  const dma = new Map<DmaStrip, DmaFigure>();
  const curves = new Map<Strip, Curve>();
  const flows = new Map<FlowStrip, FlowCurve>();
  const loops = new Map<LoopStrip, readonly LoopCell[]>();
  const ranks = new Map<RankStrip, readonly RankDensity[]>();
  let path: readonly Piece[] = [];
  for (const strip of layout.strips) {
    if (strip.kind === 'lane') lanes.set(strip, layoutLane(run, strip.lane.id, scale));
    else if (strip.kind === 'flow') flows.set(strip, flowCurve(run, strip.flow, strip.core, scale));
    else if (strip.kind === 'loop') loops.set(strip, layoutLoopRow(run, strip, scale));
    else if (strip.kind === 'rank' && strip.folded) ranks.set(strip, rankDensities(run, strip.lanes, scale));
    else if (strip.kind === 'path') path = layoutPath(run, scale);
    else if (strip.kind === 'dma') {
      const ids = strip.lanes.map(lane => lane.id);
      dma.set(strip, layoutDma(run, ids, scale, strip.tracks.length));
    } else if (strip.kind === 'counter') {
      curves.set(strip, curveOf(run, strip, scale));
    }
  }
  const figure = { run, rows: run.rows, scale, ...layout, path, lanes, dma, curves, flows, loops, ranks };
  const before: Figure = { ...figure, transfers: { lines: [], dense: false } };
  return { ...figure, transfers: layoutTransfers(before) };
}

function curveOf(run: Run, { counter, core }: CounterStrip, scale: Scale): Curve {
  return counter === 'rate' ? rateCurve(run, scale) : usageCurve(run, counter, core, scale);
}

/** The strip that has a lane. */
export function stripOf(layout: Layout, lane: number): LaneStrip | DmaStrip | null {
  for (const strip of layout.strips) {
    if (strip.kind === 'lane' && strip.lane.id === lane) return strip;
    if (strip.kind === 'dma' && strip.lanes.some(one => one.id === lane)) return strip;
  }
  return null;
}

/** The folded rank that has a lane. */
export function foldedRankOf(layout: Layout, run: Run, lane: number): RankStrip | null {
  if (run.ranks === 1) return null;
  const rank = run.lanes[lane]?.rank ?? -1;
  const found = layout.strips.find(strip => strip.kind === 'rank' && strip.folded && strip.rank === rank);
  return found?.kind === 'rank' ? found : null;
}

/** The height in whose middle a lane is drawn, or its folded rank; null where neither is. */
export function laneMiddle(figure: Figure, lane: number): number | null {
  const strip = stripOf(figure, lane);
  if (strip?.kind === 'lane') return barTop(strip) + strip.bar / 2;
  if (strip?.kind === 'dma') return strip.tracks[0] + strip.tracksHeight / 2;
  const rank = foldedRankOf(figure, figure.run, lane);
  return rank === null ? null : rank.top + rank.height / 2;
}

export function barTop(strip: LaneStrip): number {
  // One pixel higher than the middle: the mark of the critical path lies below.
  return strip.top + Math.floor((strip.height - strip.bar) / 2) - 1;
}

/** Where a loaded row is drawn, at its true width; null where its lane is not drawn. */
export function placeOf(figure: Figure, step: number): Box | null {
  const { run, scale } = figure;
  if (!run.has(step)) return null;
  const place = step - run.rows.first;
  const lane = run.rows.lane[place];
  const strip = stripOf(figure, lane);
  const x = xOf(scale, run.rows.start[place]);
  const width = xOf(scale, run.rows.start[place] + run.rows.duration[place]) - x;
  if (strip === null) {
    const rank = foldedRankOf(figure, run, lane);
    return rank && { x, width, y: rank.top + 2, height: rank.height - 5 };
  }
  if (strip.kind === 'lane') return { x, width, y: barTop(strip), height: strip.bar };
  return { x, width, ...trackOf(figure, strip, step, lane) };
}

function trackOf(figure: Figure, strip: DmaStrip, step: number, lane: number): { y: number; height: number } {
  const tracks = figure.dma.get(strip)?.tracks ?? null;
  if (tracks === null) return { y: strip.tracks[0], height: strip.tracksHeight };
  const track = tracks.findIndex(one => indexOf(one.steps, step) >= 0);
  if (track >= 0) return { y: strip.tracks[track], height: SIZES.track };
  if (strip.pitch === 0) return { y: strip.tracks[0], height: strip.tracksHeight };
  const queue = strip.lanes.findIndex(one => one.id === lane);
  return { y: strip.queues + queue * strip.pitch, height: SIZES.queue };
}

/** Times of the nearest begin or end of a row within `reach`, or the time itself. */
export function snapped(run: Run, layout: Layout, time: number, reach: number): number {
  let best = time;
  let distance = reach;
  const consider = (candidate: number): void => {
    if (Math.abs(candidate - time) > distance) return;
    distance = Math.abs(candidate - time);
    best = candidate;
  };
  for (const strip of layout.strips) {
    const lanes = strip.kind === 'lane' ? [strip.lane] : strip.kind === 'dma' ? strip.lanes : [];
    for (const lane of lanes) considerLane(run, lane.id, time + reach, time - reach, consider);
  }
  return best;
}

/** So many rows of a lane are looked at; where there are more within reach, any edge is as good. */
const LOOKED_AT = 16;

function considerLane(run: Run, lane: number, until: number, from: number, consider: (time: number) => void): void {
  const steps = run.laneSteps(lane);
  const { start, duration, first } = run.rows;
  let at = after(run, steps, until) - 1;
  for (let looked = 0; at >= 0 && looked < LOOKED_AT; at--, looked++) {
    const begin = start[steps[at] - first];
    const end = begin + duration[steps[at] - first];
    consider(begin);
    consider(end);
    if (end < from) return;
  }
}
