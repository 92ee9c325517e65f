/** Which tile is shown: the selected one, else what the current instruction writes; and what else there is. */
import { MEMORY_LABELS } from '../../_generated/schema';
import * as format from '../../format';
import type { Buffer, Run, State } from '../../types';

/** A search lists so many. */
const MOST = 200;

/** The buffers that the current instruction touches, what it writes first. */
export function operandsOf(run: Run, step: number): readonly Buffer[] {
  if (step < 0 || !run.has(step)) return [];
  const accesses = [...run.accesses(step)].sort((one, other) => rank(one.role) - rank(other.role));
  const numbers = new Set(accesses.map(access => run.view(access.view).buffer));
  return [...numbers].flatMap(number => run.buffers[number] ?? []);
}

function rank(role: string): number {
  return role === 'read' ? 1 : 0;
}

/** The tile to show; null where there is none. */
export function tileOf(run: Run, state: Pick<State, 'tile' | 'step'>): Buffer | null {
  return (state.tile >= 0 ? run.buffers[state.tile] : undefined) ?? operandsOf(run, state.step)[0] ?? null;
}

/** Buffers with a text in their name. */
export function named(run: Run, text: string): readonly Buffer[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  const found: Buffer[] = [];
  for (const buffer of run.buffers) {
    if (!buffer.name.toLowerCase().includes(wanted)) continue;
    found.push(buffer);
    if (found.length === MOST) break;
  }
  return found;
}

/** "PSUM · float32 128 × 512". */
export function placeText(buffer: Buffer): string {
  return `${MEMORY_LABELS[buffer.space]} · ${buffer.dtype} ${format.shape(buffer.shape)}`;
}

/** The next loaded step after one that writes to a buffer; -1: none. */
export function nextWrite(run: Run, buffer: number, step: number): number {
  const { steps, roles } = run.uses(buffer);
  for (let at = 0; at < steps.length; at++) if (steps[at] > step && roles[at] !== 0) return steps[at];
  return -1;
}

/** Whether a loaded step writes to a buffer. */
export function writesTo(run: Run, buffer: number, step: number): boolean {
  if (buffer < 0 || !run.has(step)) return false;
  return run.accesses(step).some(({ role, view }) => role !== 'read' && run.view(view).buffer === buffer);
}
