/** Which rows the timeline has from top to bottom, and how high each is. */
import type { Lane, Loop, Run, State } from '../../types';
import { isUsed } from './counters';
import { tracksFor } from './dma';
import { type Flow, hasFlow } from './flows';

interface Place {
  readonly top: number;
  readonly height: number;
}

export interface AxisStrip extends Place {
  readonly kind: 'axis';
}
export interface PathStrip extends Place {
  readonly kind: 'path';
}
export interface LaneStrip extends Place {
  readonly kind: 'lane';
  readonly lane: Lane;
  /** Height of a bar. */
  readonly bar: number;
}
export interface DmaStrip extends Place {
  readonly kind: 'dma';
  readonly lanes: readonly Lane[];
  /** Top of each track, what all of them take, and top of the first of the thin rows; `pitch` is from one of these to the next. */
  readonly tracks: readonly number[];
  readonly tracksHeight: number;
  readonly queues: number;
  readonly pitch: number;
}
export interface CounterStrip extends Place {
  readonly kind: 'counter';
  readonly counter: Counter;
  /** Whose memory it counts; -1: of all cores. */
  readonly core: number;
}
/** What DMA waits for: the rate of HBM, of all cores (-1), or the descriptors of one. */
export interface FlowStrip extends Place {
  readonly kind: 'flow';
  readonly flow: Flow;
  readonly core: number;
}
/** The name of a core above its lanes, where there are several. */
export interface CoreStrip extends Place {
  readonly kind: 'core';
  readonly core: number;
}
/** A rank above its lanes, or in their place where it is folded. */
export interface RankStrip extends Place {
  readonly kind: 'rank';
  readonly rank: number;
  readonly lanes: readonly Lane[];
  readonly folded: boolean;
}
/** The loops of a core that lie within so many others; folded, each execution is one piece. */
export interface LoopStrip extends Place {
  readonly kind: 'loop';
  readonly core: number;
  readonly depth: number;
  readonly loops: readonly Loop[];
  readonly folded: boolean;
}
export type Strip =
  AxisStrip | PathStrip | RankStrip | CoreStrip | LoopStrip | LaneStrip | DmaStrip | CounterStrip | FlowStrip;
/** What can be folded. */
export type FoldStrip = RankStrip | LoopStrip;
export type Counter = 'sbuf' | 'psum' | 'rate';

export const SIZES = {
  axis: 22,
  path: 16,
  core: 16,
  rank: 24,
  foldedRank: 26,
  lowRank: 14,
  loop: 24,
  lane: 24,
  bar: 16,
  close: 32,
  closeBar: 19,
  sync: 20,
  syncBar: 10,
  track: 13,
  queue: 2,
  pitch: 3,
  counter: 30,
} as const;

const TRACK_GAP = 2;
const TRACK_PITCH = SIZES.track + TRACK_GAP;

/** Engines that are drawn even if they have nothing to do. */
const ALWAYS = new Set(['tensor', 'vector', 'scalar', 'gpsimd']);
/** Transfers of one queue, or of two, are all on the tracks. */
const QUEUES_SHOWN_FROM = 3;

export interface Layout {
  readonly strips: readonly Strip[];
  readonly height: number;
}

type Look = Pick<State, 'layout' | 'showCritical' | 'folded'> & Partial<Pick<State, 'low'>>;

/** The strips of a run. Lanes without any row are left out, the four engines apart. */
export function layoutStrips(run: Run, state: Look): Layout {
  const hasFigures = state.layout !== 'narrow' && state.low !== true;
  const strips: Strip[] = [];
  let top = 0;
  const add = (strip: Strip): void => {
    strips.push(strip);
    top += strip.height;
  };
  add({ kind: 'axis', top, height: SIZES.axis });
  if (state.showCritical) add({ kind: 'path', top, height: SIZES.path });
  const counters = run.ranks > 1 ? [] : countersOf(state.low === true ? 'narrow' : state.layout);
  const coresOfRanks = groupedCores(run);
  for (const core of run.cores) {
    const rank = coresOfRanks.rankOf(core);
    if (run.ranks > 1) {
      const isFolded = state.folded.has(foldOfRank(rank));
      if (coresOfRanks.isFirst(core)) add(rankStrip(run, rank, top, isFolded));
      if (isFolded) continue;
    }
    if (coresOfRanks.sharesRank(core)) add({ kind: 'core', core, top, height: SIZES.core });
    for (const strip of loopStrips(run, core, top, state)) add(strip);
    const lanes = run.lanes.filter(lane => lane.core === core && drawn(run, lane));
    for (const lane of lanes) if (lane.kind === 'engine') add(laneStrip(lane, top, state.layout === 'widest'));
    const queues = lanes.filter(lane => lane.kind === 'dma');
    if (queues.length > 0) add(dmaStrip(queues, top, tracksFor(run, queues)));
    // Of several ranks only what works is drawn: they are to be seen side by side.
    const more = hasFigures && run.ranks === 1;
    if (more && hasFlow(run, 'descriptors', core)) add(flowStrip('descriptors', core, top));
    for (const counter of counters)
      if (counter !== 'rate' && isUsed(run, counter))
        add({ kind: 'counter', counter, core, top, height: SIZES.counter });
  }
  // Nearly all that DMA moves goes through HBM: one of the two rates is enough.
  if (hasFigures && hasFlow(run, 'hbm', -1)) add(flowStrip('hbm', -1, top));
  else if (counters.includes('rate') && run.lanes.some(lane => lane.kind === 'dma' && drawn(run, lane)))
    add({ kind: 'counter', counter: 'rate', core: -1, top, height: SIZES.counter });
  return { strips, height: top };
}

/** So many rows of loops at most. */
const LOOP_ROWS: Readonly<Record<State['layout'], number>> = { narrow: 1, medium: 4, wide: 6, widest: 8 };

/** The rows of the loops of a core, outer ones first; what lies within a folded one is left out. */
function loopStrips(run: Run, core: number, from: number, state: Pick<State, 'layout' | 'folded'>): LoopStrip[] {
  const mine = (run.loopTrack?.loops ?? []).filter(loop => loop.core === core);
  const depths = [...new Set(mine.map(loop => loop.depth))].sort((a, b) => a - b);
  const out: LoopStrip[] = [];
  for (const depth of depths.slice(0, LOOP_ROWS[state.layout])) {
    const folded = state.folded.has(foldOfLoops(core, depth));
    const top = from + out.length * SIZES.loop;
    const loops = mine.filter(loop => loop.depth === depth);
    out.push({ kind: 'loop', core, depth, loops, folded, top, height: SIZES.loop });
    if (folded) break;
  }
  return out;
}

/** The names of what can be folded, as the state keeps them. */
export function foldOfRank(rank: number): string {
  return `rank ${rank}`;
}
export function foldOfLoops(core: number, depth: number): string {
  return `loops ${core} ${depth}`;
}
export function foldOf(strip: FoldStrip): string {
  return strip.kind === 'rank' ? foldOfRank(strip.rank) : foldOfLoops(strip.core, strip.depth);
}

/** From so many ranks on folded ones are low. */
const MANY_RANKS = 17;

function rankStrip(run: Run, rank: number, top: number, folded: boolean): RankStrip {
  const height = !folded ? SIZES.rank : run.ranks >= MANY_RANKS ? SIZES.lowRank : SIZES.foldedRank;
  return { kind: 'rank', rank, lanes: run.lanes.filter(lane => lane.rank === rank), folded, top, height };
}

interface CoreGroups {
  rankOf(core: number): number;
  isFirst(core: number): boolean;
  /** Whether its rank has several cores. */
  sharesRank(core: number): boolean;
}

function groupedCores(run: Run): CoreGroups {
  const ranks = new Map(run.lanes.map(lane => [lane.core, lane.rank]));
  const rankOf = (core: number): number => ranks.get(core) ?? 0;
  const mates = (core: number): readonly number[] => run.cores.filter(other => rankOf(other) === rankOf(core));
  return { rankOf, isFirst: core => mates(core)[0] === core, sharesRank: core => mates(core).length > 1 };
}

function drawn(run: Run, lane: Lane): boolean {
  return (run.ranks === 1 && lane.kind === 'engine' && ALWAYS.has(lane.hue)) || (run.laneTimes[lane.id]?.rows ?? 0) > 0;
}

function laneStrip(lane: Lane, top: number, close: boolean): LaneStrip {
  if (lane.hue === 'sync') return { kind: 'lane', lane, top, height: SIZES.sync, bar: SIZES.syncBar };
  const [height, bar] = close ? [SIZES.close, SIZES.closeBar] : [SIZES.lane, SIZES.bar];
  return { kind: 'lane', lane, top, height, bar };
}

function flowStrip(flow: Flow, core: number, top: number): FlowStrip {
  return { kind: 'flow', flow, core, top, height: SIZES.counter };
}

function dmaStrip(lanes: readonly Lane[], top: number, count: number): DmaStrip {
  const rows = lanes.length >= QUEUES_SHOWN_FROM ? lanes.length : 0;
  const thin = rows > 0 ? rows * SIZES.pitch + 4 : 0;
  const tracks = Array.from({ length: count }, (_, track) => top + 3 + track * TRACK_PITCH);
  const tracksHeight = count * TRACK_PITCH - TRACK_GAP;
  const both = tracksHeight + 6;
  return {
    kind: 'dma',
    lanes,
    top,
    height: both + thin,
    tracks,
    tracksHeight,
    queues: top + both,
    pitch: rows > 0 ? SIZES.pitch : 0,
  };
}

function countersOf(layout: State['layout']): readonly Counter[] {
  switch (layout) {
    case 'narrow':
      return [];
    case 'medium':
      return ['sbuf'];
    case 'wide':
      return ['sbuf', 'psum'];
    case 'widest':
      return ['sbuf', 'psum', 'rate'];
  }
}
