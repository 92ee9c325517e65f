/** What a server says of a text, drawn over it. */

import type { Range as Placed, StateEffectType, StateField, Text } from '@codemirror/state';
import type { Decoration, DecorationSet } from '@codemirror/view';

import type { Tools } from './editor';
import type { Position } from './protocol';

export interface Decorations<T> {
  /** The effect that replaces what is drawn. */
  readonly put: StateEffectType<readonly T[]>;
  readonly field: StateField<DecorationSet>;
}

/** The offset of a position in a document that may have changed since. */
export function offsetIn(doc: Text, { line, character }: Position): number {
  if (line >= doc.lines) return doc.length;
  const { from, to } = doc.line(line + 1);
  return Math.min(from + character, to);
}

/** The protocol's position of an offset. */
export function positionIn(doc: Text, offset: number): Position {
  const line = doc.lineAt(offset);
  return { line: line.number - 1, character: offset - line.from };
}

/** Decorations of values, which move with the text until others are put. */
export function decorationsOf<T>(
  { state, view: cm }: Tools['cm'],
  draw: (values: readonly T[], doc: Text) => readonly Placed<Decoration>[],
): Decorations<T> {
  const put = state.StateEffect.define<readonly T[]>();
  const field = state.StateField.define<DecorationSet>({
    create: () => cm.Decoration.none,
    update(before, transaction) {
      let drawn = before.map(transaction.changes);
      for (const effect of transaction.effects)
        if (effect.is(put)) drawn = cm.Decoration.set(draw(effect.value, transaction.state.doc), true);
      return drawn;
    },
    provide: field => cm.EditorView.decorations.from(field),
  });
  return { put, field };
}
