/** Cores: whose memory a buffer is in, and when that is fullest. */

import type { Buffer, Run } from '../../types';

/** What a run tells of its cores, where its message has it. */
interface PerCore {
  readonly cores?: readonly number[];
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
