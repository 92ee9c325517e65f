/** Cores: whose memory a buffer is in, and when that is fullest. */

import type { Peak, Run } from '../../types';
import type { Tile } from './occupancy';

/** The cores of a run, at least one, ascending. */
export function coresOf(run: Run): readonly number[] {
  if (run.cores.length > 0) return run.cores;
  const cores = new Set(run.lanes.filter(lane => lane.kind === 'engine').map(lane => lane.core));
  return cores.size === 0 ? [0] : [...cores].sort((a, b) => a - b);
}

/** The core that an instruction runs on; -1: not loaded. */
export function coreOfStep(run: Run, step: number): number {
  if (step < 0 || !run.has(step)) return -1;
  return run.lanes[run.rows.lane[step - run.rows.first]]?.core ?? -1;
}

/** When a core's SBUF is fullest; null where nothing is in it. Old recordings of several cores tell by their tiles. */
export function peakOf(run: Run, core: number, tiles: readonly Tile[]): Peak | null {
  const told = run.peak('sbuf', core);
  return told ?? (tiles.length === 0 ? null : { core, ...fullestMoment(tiles, run.capacity.partitions) });
}

/** The fullest moment by lifetimes: bytes of the fullest stretch of partitions that tiles begin or end at. */
function fullestMoment(tiles: readonly Tile[], partitions: number): Omit<Peak, 'core'> {
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
