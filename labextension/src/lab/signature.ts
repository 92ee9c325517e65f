/** The signature of the call around the cursor, with the parameter at hand. */

import type { Extension } from '@codemirror/state';
import type { Tooltip, ViewUpdate } from '@codemirror/view';

import type { Tools } from './editor';
import { positionIn } from './decorations';
import type { SharedCell } from './jupyter';
import { element } from './markdown';
import type { Rendered } from './markdown';
import { textOf } from './protocol';
import type { SignatureHelp } from './protocol';

/** Paragraphs of a parameter's text that are shown, so that the code above stays in sight; the hover has all. */
const PARAGRAPHS = 2;
/** What opens it when it is typed. */
const OPENS = /[(,]$/;

export function signature({ cm: { state, view: cm }, session, render }: Tools): { of(cell: SharedCell): Extension } {
  const put = state.StateEffect.define<Tooltip | null>();
  const field = state.StateField.define<Tooltip | null>({
    create: () => null,
    update(before, transaction) {
      let shown = before === null ? null : { ...before, pos: transaction.changes.mapPos(before.pos) };
      if (!transaction.docChanged) shown = before;
      for (const effect of transaction.effects) if (effect.is(put)) shown = effect.value;
      return shown;
    },
    provide: field => cm.showTooltip.from(field),
  });

  function tooltip(help: SignatureHelp, pos: number): Tooltip | null {
    const [first] = help.signatures;
    if (first === undefined) return null;
    return {
      pos,
      above: true,
      create: () => {
        const card = element('div', 'nki-lab-card nki-lab-signature');
        const active = first.parameters?.[first.activeParameter ?? help.activeParameter ?? -1];
        const line = element('code', 'nki-lab-call');
        const [start, end] = active?.label ?? [first.label.length, first.label.length];
        line.append(
          first.label.slice(0, start),
          element('b', '', first.label.slice(start, end)),
          first.label.slice(end),
        );
        card.append(line);
        const text = textOf(active?.documentation ?? first.documentation)
          .split('\n\n', PARAGRAPHS)
          .join('\n\n');
        const prose: Rendered | null = text === '' ? null : render(text);
        if (prose !== null) card.append(prose.node);
        return { dom: card, destroy: () => prose?.dispose() };
      },
    };
  }

  const plugin = (cell: SharedCell): Extension =>
    cm.ViewPlugin.define(view => {
      let asked: AbortController | null = null;
      let isGone = false;
      const show = (made: Tooltip | null): void => {
        asked?.abort();
        asked = null;
        queueMicrotask(() => {
          if (!isGone && (made !== null || view.state.field(field, false))) view.dispatch({ effects: put.of(made) });
        });
      };
      const load = async (): Promise<void> => {
        asked?.abort();
        const own = (asked = new AbortController());
        const { doc, selection } = view.state;
        const position = positionIn(doc, selection.main.head);
        const found = await session.ask<SignatureHelp>(cell, 'textDocument/signatureHelp', { position }, own.signal);
        if (asked === own) show(found === null ? null : tooltip(found, selection.main.head));
      };
      const update = (change: ViewUpdate): void => {
        const isShown = change.state.field(field, false) !== null || asked !== null;
        if (change.focusChanged && !view.hasFocus) show(null);
        else if (change.docChanged && change.transactions.some(item => item.isUserEvent('input'))) {
          const { head } = change.state.selection.main;
          if (isShown || OPENS.test(change.state.sliceDoc(Math.max(0, head - 2), head).trimEnd())) void load();
        } else if (isShown && (change.docChanged || change.selectionSet)) void load();
      };
      return { update, destroy: () => void (isGone = true) };
    });

  return { of: cell => [field, plugin(cell)] };
}
