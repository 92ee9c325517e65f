/** How full SBUF is: in use, lost to what is dead, free and in how large pieces, and when it was fullest. */

import type { Gaps } from './map';
import { fullest, gapsOf } from './map';
import type { Tile } from './occupancy';

/** Bytes per partition at a time. */
export interface Pressure {
  /** In use in the fullest partition. */
  readonly live: number;
  /** Of tiles that were read for the last time and whose bytes nothing took, in the partition with most of them. */
  readonly dead: number;
  /** What no tile takes in any partition. */
  readonly gaps: Gaps;
  /** The share of the free bytes that the largest gap does not have. */
  readonly fragmented: number;
}

export function pressureOf(tiles: readonly Tile[], time: number, capacity: number): Pressure {
  const gaps = gapsOf(tiles, capacity);
  return {
    live: fullest(tiles, time, false),
    dead: fullest(tiles, time, true),
    gaps,
    fragmented: gaps.total > 0 ? 1 - gaps.largest / gaps.total : 0,
  };
}
