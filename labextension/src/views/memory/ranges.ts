/** The parts of the axes that are shown: bytes and partitions here, time is the timeline's window. */

import type { Span } from '../../types';

/** What the map shows: bytes of each partition, and partitions. The lifetimes show the same bytes. */
export interface Shown {
  readonly bytes: Span;
  readonly rows: Span;
}

/** What the user zoomed to; null: all that the used or the full range has. */
export interface Zoom {
  readonly bytes: Span | null;
  readonly rows: Span | null;
}

export const UNZOOMED: Zoom = { bytes: null, rows: null };

/** The least that an axis shows: bytes, and partitions. */
const LEAST_BYTES = 16;
const LEAST_ROWS = 2;

/** What is shown of `bytes` bytes and `partitions` partitions. */
export function shownOf(zoom: Zoom, bytes: number, partitions: number): Shown {
  return {
    bytes: limited(zoom.bytes, bytes, LEAST_BYTES),
    rows: limited(zoom.rows, partitions, LEAST_ROWS),
  };
}

/** A range within [0, most], at least `least` long; all of it where none is given. */
export function limited(range: Span | null, most: number, least: number): Span {
  if (range === null) return { from: 0, to: most };
  const length = Math.min(most, Math.max(range.to - range.from, Math.min(least, most)));
  const middle = (range.from + range.to) / 2;
  const from = Math.min(Math.max(0, middle - length / 2), most - length);
  return { from, to: from + length };
}

/** Null where a range shows all that there is. */
export function zoomTo(range: Span, most: number): Span | null {
  return range.from <= 0 && range.to >= most ? null : { from: Math.max(0, range.from), to: Math.min(most, range.to) };
}

/** The part of a range between two shares of it, in any order. */
export function partOf(range: Span, one: number, other: number): Span {
  const length = range.to - range.from;
  const [low, high] = one < other ? [one, other] : [other, one];
  return {
    from: range.from + Math.min(Math.max(low, 0), 1) * length,
    to: range.from + Math.min(Math.max(high, 0), 1) * length,
  };
}

/** Where a value stands in a range, as a share; outside it below 0 or above 1. */
export function shareOf(range: Span, value: number): number {
  return (value - range.from) / Math.max(1e-9, range.to - range.from);
}
