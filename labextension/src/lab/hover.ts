/** The hover: findings with their fixes, then what the server says of the name. */

import type { Extension } from '@codemirror/state';
import type { EditorView, Tooltip } from '@codemirror/view';

import type { Tools } from './editor';
import { positionIn } from './decorations';
import { SEVERITIES } from './findings';
import type { FixMenu } from './fixes';
import type { SharedCell } from './jupyter';
import { element } from './markdown';
import type { Rendered } from './markdown';
import { textOf } from './protocol';
import type { CodeAction, Diagnostic, Markup } from './protocol';

type At = (view: EditorView, offset: number) => Diagnostic[];

export function hover(
  { cm: { view: cm }, session, render }: Tools,
  cell: SharedCell,
  at: At,
  fixes: FixMenu,
): Extension {
  return cm.hoverTooltip(
    async (view, offset): Promise<Tooltip | null> => {
      const position = positionIn(view.state.doc, offset);
      const found = at(view, offset);
      const [said, actions] = await Promise.all([
        session.ask<{ readonly contents: Markup }>(cell, 'textDocument/hover', { position }),
        found.length === 0 ? [] : fixes.actions(cell, found),
      ]);
      if (said === null && found.length === 0) return null;
      const from = found.length === 0 ? offset : Math.min(offset, wordStart(view, offset));
      return {
        pos: from,
        above: true,
        create: () => {
          const prose = said === null ? null : render(textOf(said.contents));
          const dom = card(view, found, actions, prose, action => fixes.run(action, view));
          return { dom, destroy: () => prose?.dispose() };
        },
      };
    },
    { hideOnChange: true },
  ); // a fix was applied, or somebody types
}

function wordStart(view: EditorView, offset: number): number {
  return view.state.wordAt(offset)?.from ?? offset;
}

function card(
  view: EditorView,
  found: readonly Diagnostic[],
  actions: readonly CodeAction[],
  prose: Rendered | null,
  run: (action: CodeAction) => void,
): HTMLElement {
  const card = element('div', 'nki-lab-card');
  for (const item of found) card.append(finding(item));
  const edits = actions.filter(action => action.edit !== undefined);
  if (edits.length > 0) {
    const row = element('div', 'nki-lab-fixes');
    for (const action of edits) {
      const button = element('button', 'nki-lab-fix', action.title);
      button.addEventListener('click', () => {
        run(action);
        view.focus();
      });
      row.append(button);
    }
    row.append(element('kbd', 'nki-lab-key', 'Ctrl .'));
    card.append(row);
  }
  if (prose !== null) card.append(prose.node);
  return card;
}

/** A finding: what is wrong, then its limit and its remedy, a line each. */
export function finding({ code, codeDescription, message, severity }: Diagnostic): HTMLElement {
  const node = element('div', `nki-lab-finding nki-lab-${SEVERITIES[severity ?? 1] ?? 'error'}`);
  const [first, ...more] = message.split('\n');
  const head = element('div', 'nki-lab-message', first);
  head.prepend(badge(code ?? '', codeDescription?.href), ' ');
  node.append(head);
  for (const line of more) node.append(element('div', 'nki-lab-more', line));
  return node;
}

function badge(code: string, href: string | undefined): HTMLElement {
  const node = element(href !== undefined && /^https?:/.test(href) ? 'a' : 'span', 'nki-lab-code', code);
  if (node instanceof HTMLAnchorElement && href !== undefined) {
    node.href = href;
    node.target = '_blank';
    node.rel = 'noopener';
  }
  return node;
}
