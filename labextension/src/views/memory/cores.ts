/** Cores: whose memory a buffer is in, and when that is fullest. */

import type { Buffer, Run } from '../../types';
import type { Tile } from './occupancy';

/** The most bytes in use at one time in the fullest partition, and from when on. */
export interface Peak {
  readonly bytes: number;
  readonly time: number;
}

/** What a run tells of its cores, where its message has it. */
interface PerCore {
  readonly cores?: readonly number[];
  peak?(space: 'sbuf' | 'psum', core: number): Peak | null;
}

/** The cores of a run, at least one, ascending. */
export function coresOf(run: Run): readonly number[] {
  const given = (run as PerCore).cores;
  if (given !== undefined && given.length > 0) return given;
  const cores = new Set(run.lanes.filter(lane => lane.kind === 'engine').map(lane => lane.core));
  return cores.size === 0 ? [0] : [...cores].sort((a, b) => a - b);
}

/** The core in whose memory a buffer is: the one recorded, else that of its writer. */
export function coreOf(run: Run, buffer: Buffer): number {
  const given = (buffer as { readonly core?: number }).core;
  return given ?? run.lanes[buffer.lifetime?.writer ?? -1]?.core ?? run.lanes[0]?.core ?? 0;
}

/** The core that an instruction runs on; -1: not loaded. */
export function coreOfStep(run: Run, step: number): number {
  if (step < 0 || !run.has(step)) return -1;
  return run.lanes[run.rows.lane[step - run.rows.first]]?.core ?? -1;
}

/** When a core's SBUF is fullest; null where nothing is in it. */
export function peakOf(run: Run, core: number, tiles: readonly Tile[]): Peak | null {
  const given = (run as PerCore).peak?.('sbuf', core);
  if (given !== undefined) return given;
  return tiles.length === 0 ? null : fullestMoment(tiles, run.capacity.partitions);
}

/** The fullest moment by lifetimes: bytes of the fullest stretch of partitions that tiles begin or end at. */
function fullestMoment(tiles: readonly Tile[], partitions: number): Peak {
  const edges = [...new Set(tiles.flatMap(tile => [tile.top, Math.min(tile.bottom, partitions)]))].sort(
    (a, b) => a - b,
  );
  const levels = new Float64Array(edges.length);
  const events = tiles.flatMap(tile => [
    { at: tile.start, tile, sign: 1 },
    { at: tile.end, tile, sign: -1 },
  ]);
  events.sort((a, b) => a.at - b.at || a.sign - b.sign);
  let best = { bytes: 0, time: 0 };
  for (const { at, tile, sign } of events) {
    for (let place = 0; place < edges.length; place++) {
      const edge = edges[place] ?? 0;
      if (edge < tile.top || edge >= tile.bottom) continue;
      levels[place] += sign * (tile.high - tile.low);
      if (levels[place] > best.bytes) best = { bytes: levels[place], time: at };
    }
  }
  return best;
}
