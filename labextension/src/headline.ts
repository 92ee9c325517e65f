/** What holds a run back: the sentences of its message, with the names that tiles have on the page. */
import { percent } from './format';
import type { Part, Run } from './types';

/** A part of a sentence as it is shown. */
export interface Said {
  readonly text: string;
  readonly code?: boolean;
}

/** Sentences that the header has room for. */
const SHOWN = 2;

/** The first sentences, the most important first. */
export function headline(run: Run): readonly (readonly Part[])[] {
  return run.bottlenecks.slice(0, SHOWN).map(sentence => sentence.parts);
}

/** A part's text: a share whose sign stays with its number, or the tile that a step waits for where that is loaded. */
export function said(run: Run, part: Part): Said {
  if (part.share !== undefined) return { text: percent(part.share).replace(' ', '\u00a0') };
  const { waiting } = part;
  const tile = waiting !== undefined && run.has(waiting) ? run.awaited(waiting) : '';
  return tile ? { text: tile, code: true } : { text: part.text ?? '' };
}
