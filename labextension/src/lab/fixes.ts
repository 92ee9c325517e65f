/** Quick fixes: a menu at the cursor, worked by keys. */

import type { Extension, StateEffectType } from '@codemirror/state';
import type { EditorView, Tooltip } from '@codemirror/view';

import type { Tools } from './editor';
import { positionIn } from './decorations';
import type { SharedCell } from './jupyter';
import { element } from './markdown';
import type { CodeAction, Diagnostic } from './protocol';

export interface FixMenu {
  readonly field: Extension;
  /** The actions for findings of a cell, fixes first. */
  actions(cell: SharedCell, found: readonly Diagnostic[]): Promise<readonly CodeAction[]>;
  run(action: CodeAction, view: EditorView): void;
  /** Open the menu for the findings on the line of the cursor; false where there is nothing to fix. */
  open(cell: SharedCell, view: EditorView): Promise<boolean>;
}

export function fixMenu({ cm: { state, view: cm }, session }: Tools): FixMenu {
  const put: StateEffectType<Tooltip | null> = state.StateEffect.define<Tooltip | null>();
  const field = state.StateField.define<Tooltip | null>({
    create: () => null,
    update(before, transaction) {
      let shown = transaction.docChanged ? null : before;
      for (const effect of transaction.effects) if (effect.is(put)) shown = effect.value;
      return shown;
    },
    provide: field => cm.showTooltip.from(field),
  });

  async function actions(cell: SharedCell, found: readonly Diagnostic[]): Promise<readonly CodeAction[]> {
    const range = { start: found[0].range.start, end: found[0].range.end };
    const context = { diagnostics: found, only: ['quickfix'] };
    return (await session.ask<CodeAction[]>(cell, 'textDocument/codeAction', { range, context })) ?? [];
  }

  function run(action: CodeAction, view: EditorView): void {
    view.dispatch({ effects: put.of(null) });
    if (action.edit !== undefined) session.apply(action.edit);
    if (action.command !== undefined) {
      const { command, arguments: given } = action.command;
      void session.execute(command, given ?? []);
    }
    view.focus();
  }

  async function open(cell: SharedCell, view: EditorView): Promise<boolean> {
    const { doc, selection } = view.state;
    const found = near(session.findings(cell), positionIn(doc, selection.main.head));
    const list = found.length === 0 ? [] : await actions(cell, found);
    if (list.length === 0 || !view.state.doc.eq(doc)) return false;
    const close = (): void => {
      view.dispatch({ effects: put.of(null) });
      view.focus();
    };
    const create = (): { dom: HTMLElement; mount(): void; destroy(): void } =>
      menu(list, action => run(action, view), close);
    view.dispatch({ effects: put.of({ pos: selection.main.head, above: false, create }) });
    return true;
  }

  return { field, actions, run, open };
}

/** The findings at a position; where there are none, those of its line. */
export function near(
  found: readonly Diagnostic[],
  { line, character }: { line: number; character: number },
): Diagnostic[] {
  const onLine = found.filter(({ range }) => range.start.line <= line && line <= range.end.line);
  const here = onLine.filter(
    ({ range: { start, end } }) =>
      (start.line < line || start.character <= character) && (line < end.line || character <= end.character),
  );
  return here.length > 0 ? here : onLine;
}

/** A list of actions that has the keyboard while it is open. */
export function menu(
  actions: readonly CodeAction[],
  choose: (action: CodeAction) => void,
  close: () => void,
): { dom: HTMLElement; mount(): void; destroy(): void } {
  const list = element('div', 'nki-lab-menu');
  list.setAttribute('role', 'listbox');
  list.setAttribute('aria-label', 'Quick fixes');
  list.tabIndex = -1;
  let chosen = 0;
  const items = actions.map((action, index) => {
    const item = element('div', 'nki-lab-item', action.title);
    item.id = `nki-lab-item-${index}`;
    item.setAttribute('role', 'option');
    item.classList.toggle('nki-lab-explains', action.edit === undefined);
    item.addEventListener('mousedown', event => {
      event.preventDefault();
      choose(action);
    });
    return item;
  });
  list.append(...items);
  const mark = (index: number): void => {
    chosen = (index + items.length) % items.length;
    items.forEach((item, place) => item.setAttribute('aria-selected', String(place === chosen)));
    list.setAttribute('aria-activedescendant', items[chosen].id);
    items[chosen].scrollIntoView?.({ block: 'nearest' });
  };
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => mark(chosen + 1),
    ArrowUp: () => mark(chosen - 1),
    Home: () => mark(0),
    End: () => mark(items.length - 1),
    Enter: () => choose(actions[chosen]),
    Escape: close,
    Tab: close,
  };
  // The window hears of keys before JupyterLab does, whose notebooks run cells and leave the editor by these keys.
  const pressed = (event: KeyboardEvent): void => {
    if (['Shift', 'Control', 'Alt', 'Meta'].includes(event.key)) return;
    const act = keys[event.key];
    if (act === undefined) {
      close(); // whoever goes on typing wants no menu
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
    act();
  };
  mark(0);
  return {
    dom: list,
    mount: () => {
      list.focus({ preventScroll: true });
      window.addEventListener('keydown', pressed, true);
    },
    destroy: () => window.removeEventListener('keydown', pressed, true),
  };
}
