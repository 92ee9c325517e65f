/** Shapes and the like, beside the code. */

import type { Extension } from '@codemirror/state';
import type { DecorationSet } from '@codemirror/view';

import { answers } from './answers';
import type { Tools } from './editor';
import { offsetIn } from './findings';
import type { SharedCell } from './jupyter';
import { textOf } from './protocol';
import type { InlayHint } from './protocol';

export function hints(tools: Tools): { of(cell: SharedCell): Extension } {
  const { state, view: cm } = tools.cm;
  const put = state.StateEffect.define<readonly InlayHint[]>();

  class Hint extends cm.WidgetType {
    constructor(
      readonly label: string,
      readonly tip: string,
    ) {
      super();
    }

    override eq(other: Hint): boolean {
      return this.label === other.label && this.tip === other.tip;
    }

    override toDOM(): HTMLElement {
      const node = document.createElement('span');
      node.className = 'nki-lab-hint';
      node.textContent = this.label;
      node.title = this.tip;
      return node;
    }
  }

  const field = state.StateField.define<DecorationSet>({
    create: () => cm.Decoration.none,
    update(before, transaction) {
      let drawn = before.map(transaction.changes);
      for (const effect of transaction.effects)
        if (effect.is(put)) {
          const { doc } = transaction.state;
          const widgets = effect.value.map(({ position, label, tooltip }) =>
            cm.Decoration.widget({ widget: new Hint(label, textOf(tooltip)), side: 1 }).range(offsetIn(doc, position)),
          );
          drawn = cm.Decoration.set(widgets, true);
        }
      return drawn;
    },
    provide: field => cm.EditorView.decorations.from(field),
  });

  const plugin = (cell: SharedCell): Extension =>
    answers<readonly InlayHint[]>(tools, cell, {
      method: 'textDocument/inlayHint',
      params: doc => ({ range: { start: { line: 0, character: 0 }, end: { line: doc.lines, character: 0 } } }),
      take: (view, found) => view.dispatch({ effects: put.of(found ?? []) }),
    });

  return { of: cell => [field, plugin(cell)] };
}
