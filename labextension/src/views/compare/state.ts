/** What the parts of a comparison share. */
import type { Span } from '../../types';
import type { Side } from './message';
import type { Alignment, Scaling } from './windows';

/** An instruction of one of the runs. */
export interface Picked {
  readonly side: Side;
  readonly step: number;
}

export const TABLES = ['path', 'engines', 'waits', 'memory'] as const;
export type TableName = (typeof TABLES)[number];

export interface CompareState {
  /** What is shown of the earlier run; the later one follows. */
  readonly window: Span;
  readonly alignment: Alignment;
  readonly scaling: Scaling;
  readonly selected: Picked | null;
  readonly hover: Picked | null;
  /** Number of the line whose instructions stand out; -1: none. */
  readonly line: number;
  readonly table: TableName;
  /** Whether the edits of the source are shown. */
  readonly edits: boolean;
}

export interface CompareStore {
  readonly state: CompareState;
  set(change: Partial<CompareState>): void;
}

export function samePick(one: Picked | null, two: Picked | null): boolean {
  return one?.side === two?.side && one?.step === two?.step;
}
