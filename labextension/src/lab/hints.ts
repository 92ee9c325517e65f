/** Shapes and the like, beside the code. */

import type { Extension } from '@codemirror/state';

import { answers } from './answers';
import { decorationsOf, offsetIn } from './decorations';
import type { Tools } from './editor';
import type { SharedCell } from './jupyter';
import { textOf } from './protocol';
import type { InlayHint } from './protocol';

export function hints(tools: Tools): { of(cell: SharedCell): Extension } {
  const { view: cm } = tools.cm;

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

  const { put, field } = decorationsOf<InlayHint>(tools.cm, (found, doc) =>
    found.map(({ position, label, tooltip }) =>
      cm.Decoration.widget({ widget: new Hint(label, textOf(tooltip)), side: 1 }).range(offsetIn(doc, position)),
    ),
  );

  const plugin = (cell: SharedCell): Extension =>
    answers<readonly InlayHint[]>(tools, cell, {
      method: 'textDocument/inlayHint',
      params: doc => ({ range: { start: { line: 0, character: 0 }, end: { line: doc.lines, character: 0 } } }),
      take: (view, found) => view.dispatch({ effects: put.of(found ?? []) }),
    });

  return { of: cell => [field, plugin(cell)] };
}
