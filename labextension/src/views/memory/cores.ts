/** Cores: whose memory a buffer is in, and when that is fullest. */

import type { Run } from '../../types';

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
