/** Which times of the two runs stand over one another: one window is chosen, that of the earlier run; the other follows. */
import type { Span } from '../../types';
import { upper } from '../../run/search';
import { type Scale, xOf } from '../timeline/zoom';
import type { Side, Stretches } from './message';

export const ALIGNMENTS = ['start', 'iteration', 'line'] as const;
/** Times from the start; or equal iterations, or lines, begin at one place at the left end of what is shown. */
export type Alignment = (typeof ALIGNMENTS)[number];

/** One scale for both runs, or each as wide as the other. */
export type Scaling = 'same' | 'relative';

/** Times of the two runs that belong together, ascending in both. */
export interface Anchors {
  readonly before: Float64Array;
  readonly after: Float64Array;
}

/** The begins of stretches, with begin and end of the runs; where the later run goes back in time there is no anchor. */
export function anchorsOf(stretches: Stretches | undefined, spans: Readonly<Record<Side, number>>): Anchors {
  const before: number[] = [0];
  const after: number[] = [0];
  const add = (one: number, other: number): void => {
    if (one <= before[before.length - 1] || other < after[after.length - 1]) return;
    before.push(one);
    after.push(other);
  };
  for (let place = 0; place < (stretches?.count ?? 0); place++)
    add(stretches!.begin.before[place], stretches!.begin.after[place]);
  add(spans.before, Math.max(spans.after, after[after.length - 1]));
  return { before: Float64Array.from(before), after: Float64Array.from(after) };
}

/** The time of the later run at a time of the earlier one: between two anchors evenly, beyond them at the same pace. */
export function mapped({ before, after }: Anchors, time: number): number {
  const place = upper(before, before.length, time) - 1;
  if (place < 0) return time;
  if (place + 1 >= before.length) return after[place] + time - before[place];
  const share = (time - before[place]) / (before[place + 1] - before[place]);
  return after[place] + share * (after[place + 1] - after[place]);
}

/** The same backwards: the earliest time of the earlier run. */
export function mappedBack({ before, after }: Anchors, time: number): number {
  const place = upper(after, after.length, time) - 1;
  if (place < 0) return time;
  if (place + 1 >= after.length) return before[place] + time - after[place];
  const share = (time - after[place]) / (after[place + 1] - after[place]);
  return before[place] + share * (before[place + 1] - before[place]);
}

export interface Aligned {
  readonly anchors: Anchors;
  readonly alignment: Alignment;
  readonly scaling: Scaling;
  readonly spans: Readonly<Record<Side, number>>;
}

/** How many picoseconds of the later run are as wide as one of the earlier run. */
function pace({ scaling, spans }: Aligned): number {
  return scaling === 'same' || spans.before <= 0 || spans.after <= 0 ? 1 : spans.after / spans.before;
}

/** The window of the later run that stands below one of the earlier run. */
export function followed(window: Span, aligned: Aligned): Span {
  const wide = (window.to - window.from) * pace(aligned);
  const from = aligned.alignment === 'start' ? window.from * pace(aligned) : mapped(aligned.anchors, window.from);
  return { from, to: from + wide };
}

/** The window of the earlier run below which a time of the later run is at a share of the width. */
export function windowFor(time: number, at: number, window: Span, aligned: Aligned): Span {
  const wide = window.to - window.from;
  const begin = time - at * wide * pace(aligned);
  const from = aligned.alignment === 'start' ? begin / pace(aligned) : mappedBack(aligned.anchors, begin);
  return { from, to: from + wide };
}

/** So far beyond the runs a window may reach, as a share of the longer one. */
const BEYOND = 0.02;
const NARROWEST = 20_000;

/** All of both runs. */
export function wholeOf(spans: Readonly<Record<Side, number>>, scaling: Scaling): Span {
  const long = scaling === 'same' ? Math.max(spans.before, spans.after) : spans.before;
  const rest = Math.max(long, 1) * BEYOND;
  return { from: -rest, to: Math.max(long, 1) + rest };
}

/** A window within what there is, no narrower than what can be told apart. */
export function limited(window: Span, whole: Span): Span {
  const wide = Math.min(
    Math.max(window.to - window.from, Math.min(NARROWEST, whole.to - whole.from)),
    whole.to - whole.from,
  );
  const middle = (window.from + window.to) / 2;
  const from = Math.min(Math.max(middle - wide / 2, whole.from), whole.to - wide);
  return { from, to: from + wide };
}

/** A stretch, or several that are too narrow to be drawn apart, as a band between the two timelines. */
export interface Ribbon {
  readonly first: number;
  readonly last: number;
  /** Where it begins and ends, above and below. */
  readonly top: readonly [number, number];
  readonly bottom: readonly [number, number];
  /** How much longer it takes in the later run, in picoseconds. */
  readonly change: number;
}

const MOST_RIBBONS = 160;
const NARROW = 5;

/** The ribbons of stretches in two windows. Neighbours join where there would be too many, or they would be too narrow. */
export function ribbonsOf(stretches: Stretches, scales: Readonly<Record<Side, Scale>>, joins: boolean): Ribbon[] {
  const seen: number[] = [];
  for (let place = 0; place < stretches.count; place++)
    if (touches(stretches, place, scales, 'before') || touches(stretches, place, scales, 'after')) seen.push(place);
  const out: Ribbon[] = [];
  const together = joins ? Math.ceil(seen.length / MOST_RIBBONS) : 1;
  for (let at = 0; at < seen.length;) {
    let count = together;
    let ribbon = ribbonOf(stretches, seen[at], seen[Math.min(at + count, seen.length) - 1], scales);
    while (joins && widest(ribbon) < NARROW && at + count < seen.length)
      ribbon = ribbonOf(stretches, seen[at], seen[Math.min(at + ++count, seen.length) - 1], scales);
    if (joins || widest(ribbon) >= 2) out.push(ribbon);
    at += count;
  }
  return joins ? out : out.sort((one, two) => widest(two) - widest(one)).slice(0, MOST_RIBBONS);
}

function touches(stretches: Stretches, place: number, scales: Readonly<Record<Side, Scale>>, side: Side): boolean {
  return stretches.begin[side][place] < scales[side].to && stretches.end[side][place] > scales[side].from;
}

function widest({ top, bottom }: Ribbon): number {
  return Math.max(top[1] - top[0], bottom[1] - bottom[0]);
}

function ribbonOf(stretches: Stretches, first: number, last: number, scales: Readonly<Record<Side, Scale>>): Ribbon {
  const { begin, end } = stretches;
  const span = (side: Side): [number, number] => [begin[side][first], end[side][last]];
  const at = (side: Side): [number, number] => span(side).map(time => xOf(scales[side], time)) as [number, number];
  const [long, later] = [span('before'), span('after')];
  return { first, last, top: at('before'), bottom: at('after'), change: later[1] - later[0] - (long[1] - long[0]) };
}

/** Iterations are drawn at the finest level at which the ribbons that are seen are so wide on average. */
const READABLE = 40;

export function levelFor(levels: readonly Stretches[], scale: Scale): number {
  for (let level = levels.length - 1; level > 0; level--) {
    const { begin, end, count } = levels[level];
    let seen = 0;
    for (let place = 0; place < count; place++)
      if (begin.before[place] < scale.to && end.before[place] > scale.from) seen++;
    if (seen > 0 && scale.width / seen >= READABLE) return level;
  }
  return 0;
}
