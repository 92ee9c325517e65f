/** Partitions with equal layout, folded and named by their range: what one of them shows holds for all of them. */

import type { Tile } from './occupancy';

/** A stretch of partitions that every tile takes wholly or not at all. */
export interface PartitionClass {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** With more classes than this, they are the quadrants. */
const MOST = 6;
/** An access begins at partition 0, 32, 64 or 96 (Trainium architecture guide), so tiles do too. */
const QUADRANT = 32;

/** The classes of a run, from partition 0 on; stretches that no tile ever takes have none. One class: all are alike. */
export function classesOf(tiles: readonly Tile[], partitions: number): readonly PartitionClass[] {
  const bounds = new Set<number>();
  for (const tile of tiles) {
    bounds.add(Math.min(tile.top, partitions));
    bounds.add(Math.min(tile.bottom, partitions));
  }
  let edges = [...bounds].sort((a, b) => a - b);
  if (edges.length > MOST + 1) {
    edges = [];
    for (let edge = 0; edge <= partitions; edge += QUADRANT) edges.push(edge);
  }
  const stretches = pairs(edges).filter(([from, to]) => tiles.some(tile => tile.top < to && tile.bottom > from));
  return stretches.map(([from, to]) => ({ from, to }));
}

/** A class in words: "partitions 0–31". */
export function classRange(one: PartitionClass): string {
  return one.to - one.from === 1
    ? `partition ${String(one.from)}`
    : `partitions ${String(one.from)}–${String(one.to - 1)}`;
}

/** A class in few characters: "0–31". */
export function shortRange(one: PartitionClass): string {
  return one.to - one.from === 1 ? String(one.from) : `${String(one.from)}–${String(one.to - 1)}`;
}

function pairs(edges: readonly number[]): [number, number][] {
  return edges.slice(1).map((edge, place) => [edges[place] ?? 0, edge]);
}
