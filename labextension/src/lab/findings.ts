/** Findings as squiggles. */

import type { Extension, Range as Placed, Text } from '@codemirror/state';
import type { Decoration, DecorationSet, EditorView } from '@codemirror/view';

import type { Tools } from './editor';
import type { SharedCell } from './jupyter';
import type { Diagnostic, Position } from './protocol';

/** Classes by the protocol's numbers. */
export const SEVERITIES = ['', 'error', 'warning', 'info', 'hint'] as const;

export interface Findings {
  of(cell: SharedCell): Extension;
  /** The findings whose squiggle is at an offset, or touches it. */
  readonly at: (view: EditorView, offset: number) => Diagnostic[];
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

export function findingsOf({ cm: { state, view: cm }, session }: Tools): Findings {
  const put = state.StateEffect.define<readonly Diagnostic[]>();
  const field = state.StateField.define<DecorationSet>({
    create: () => cm.Decoration.none,
    update(before, transaction) {
      let drawn = before.map(transaction.changes);
      for (const effect of transaction.effects) if (effect.is(put)) drawn = draw(transaction.state.doc, effect.value);
      return drawn;
    },
    provide: field => cm.EditorView.decorations.from(field),
  });

  function draw(doc: Text, found: readonly Diagnostic[]): DecorationSet {
    const marks: Placed<Decoration>[] = [];
    for (const item of found) {
      let [from, to] = [offsetIn(doc, item.range.start), offsetIn(doc, item.range.end)];
      if (from >= to) [from, to] = widened(doc, from);
      if (from === to) continue;
      const kind = SEVERITIES[item.severity ?? 1] ?? 'error';
      const mark = cm.Decoration.mark({ class: `nki-lab-squiggle nki-lab-${kind}`, finding: item });
      marks.push(mark.range(from, to));
    }
    return cm.Decoration.set(marks, true);
  }

  return {
    of: cell => [
      field,
      cm.ViewPlugin.define(view => {
        const show = (): void => {
          if (view.state.doc.toString() === cell.getSource())
            view.dispatch({ effects: put.of(session.findings(cell)) });
        };
        // An editor takes no changes while it is made.
        queueMicrotask(show);
        return { destroy: session.watch(cell, () => queueMicrotask(show)) };
      }),
    ],
    at(view, offset) {
      const found: Diagnostic[] = [];
      view.state.field(field, false)?.between(offset, offset, (from, to, { spec }) => {
        const [start, end] = [positionIn(view.state.doc, from), positionIn(view.state.doc, to)];
        found.push({ ...(spec as { finding: Diagnostic }).finding, range: { start, end } });
      });
      return found;
    },
  };
}

/** A place without length, as a character that can be seen. */
function widened(doc: Text, at: number): [number, number] {
  const { from, to } = doc.lineAt(at);
  return at < to ? [at, at + 1] : [Math.max(from, at - 1), at];
}
