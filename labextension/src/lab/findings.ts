/** Findings as squiggles. */

import type { Extension, Range as Placed, Text } from '@codemirror/state';
import type { Decoration, EditorView } from '@codemirror/view';

import { decorationsOf, offsetIn, positionIn } from './decorations';
import type { Tools } from './editor';
import type { SharedCell } from './jupyter';
import type { Diagnostic } from './protocol';

/** Classes by the protocol's numbers. */
export const SEVERITIES = ['', 'error', 'warning', 'info', 'hint'] as const;

export interface Findings {
  of(cell: SharedCell): Extension;
  /** The findings whose squiggle is at an offset, or touches it. */
  readonly at: (view: EditorView, offset: number) => Diagnostic[];
}

export function findingsOf({ cm: tools, session }: Tools): Findings {
  const { view: cm } = tools;
  const { put, field } = decorationsOf<Diagnostic>(tools, draw);

  function draw(found: readonly Diagnostic[], doc: Text): Placed<Decoration>[] {
    const marks: Placed<Decoration>[] = [];
    for (const item of found) {
      let [from, to] = [offsetIn(doc, item.range.start), offsetIn(doc, item.range.end)];
      if (from >= to) [from, to] = widened(doc, from);
      if (from === to) continue;
      const kind = SEVERITIES[item.severity ?? 1] ?? 'error';
      const mark = cm.Decoration.mark({ class: `nki-lab-squiggle nki-lab-${kind}`, finding: item });
      marks.push(mark.range(from, to));
    }
    return marks;
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
