/** Lines and characters of the protocol, and offsets of editors. Both count UTF-16 units. */

import type { Position, TextEdit } from './protocol';

/** Where lines begin, as editors break them. */
function starts(text: string): number[] {
  const found = [0];
  for (const match of text.matchAll(/\r\n|\n|\r/g)) found.push(match.index + match[0].length);
  return found;
}

/** The offset of a position; beyond the end of a line its end. */
export function offsetOf(text: string, { line, character }: Position): number {
  const all = starts(text);
  if (line >= all.length) return text.length;
  const end = line + 1 < all.length ? text.slice(0, all[line + 1]).replace(/[\r\n]+$/, '').length : text.length;
  return Math.min(all[line] + character, Math.max(end, all[line]));
}

export function positionOf(text: string, offset: number): Position {
  const all = starts(text.slice(0, offset));
  return { line: all.length - 1, character: offset - all[all.length - 1] };
}

/** Edits as offsets, the last one first so that each leaves the others where they are. */
export function offsetsIn(text: string, edits: readonly TextEdit[]): (readonly [number, number, string])[] {
  return edits
    .map(
      ({ range, newText }, order) => [offsetOf(text, range.start), offsetOf(text, range.end), newText, order] as const,
    )
    .sort((one, other) => other[0] - one[0] || other[3] - one[3])
    .map(([start, end, newText]) => [start, end, newText] as const);
}

/** The offset in characters, as kernels and JupyterLab's completer count, of one in UTF-16 units. */
export function charactersOf(text: string, units: number): number {
  return Array.from(text.slice(0, units)).length;
}
