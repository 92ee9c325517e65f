/** What the timeline writes into the plates of waits. */
import { isForATile } from '../../run/words';
import type { Run } from '../../types';
import { shortReason } from '../../words';

/** What a wait is for in one or two words: the tile, else the reason. */
export function awaitedWords(run: Run, step: number, stall: number): string {
  const reason = run.stalls[stall] ?? 'none';
  return (isForATile(reason) && run.awaited(step)) || shortReason(reason);
}

/** The same with its verb: "waits k[3]"; what a lane prepares itself has none: "table load". */
export function waitLabel(run: Run, step: number, stall: number): string {
  const words = awaitedWords(run, step, stall);
  return isForATile(run.stalls[stall] ?? 'none') ? `waits ${words}` : words;
}
