/** Commands: in the palette, the menu NKI, the notebook's toolbar and the launcher. The settings schema places them. */

import declared from '../_generated/settings.json';
import type { FixMenu } from './fixes';
import { finding } from './hover';
import { ICON } from './icon';
import type { Cell, Panel, Tracker } from './jupyter';
import { element } from './markdown';
import type { Settings, Status } from './plugin';
import { offsetOf } from './positions';
import type { Diagnostic } from './protocol';
import type { Session } from './session';
import type { Dialogs, Notices } from './telling';

const CATEGORY = 'NKI';
/** The folder that examples are copied into. */
const FOLDER = 'nki-examples';
const NEW_CELL = `%%nki
@nki.jit
def kernel(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(result, tile)
    return result
`;

export interface Commands {
  addCommand(id: string, options: object): unknown;
  execute(id: string, given?: object): Promise<unknown>;
  notifyCommandChanged(id?: string): void;
}

export interface Palette {
  addItem(item: { command: string; category: string; args?: object }): unknown;
}

export interface Launcher {
  add(item: object): unknown;
}

interface Given {
  readonly app: {
    readonly commands: Commands;
    readonly serviceManager: {
      readonly contents: {
        get(path: string, options: object): Promise<unknown>;
        save(path: string, options: object): Promise<unknown>;
      };
    };
  };
  readonly palette: Palette | null;
  readonly launcher: Launcher | null;
  readonly notebooks: Tracker;
  readonly session: Session;
  readonly settings: Settings | null;
  readonly fixes: FixMenu;
  readonly tell: Notices;
  readonly dialogs: Dialogs;
  readonly fetchJson: (path: string) => Promise<unknown>;
  readonly status: Status | null;
}

export function addCommands(given: Given): void {
  const { app, palette, launcher, notebooks, session, settings, fixes, status } = given;
  const isOpen = (): boolean => notebooks.currentWidget !== null;
  const add = (
    name: string,
    label: string | ((args: Record<string, unknown>) => string),
    execute: (args: Record<string, unknown>) => unknown,
    more: object = {},
  ): void => {
    app.commands.addCommand(`nki-lab:${name}`, { label, execute, ...more });
    if (!('hidden' in more)) palette?.addItem({ command: `nki-lab:${name}`, category: CATEGORY });
  };

  add('insert', 'Insert an NKI Cell', () => insert(app.commands, notebooks), {
    isEnabled: isOpen,
    caption: 'Insert an NKI cell below',
  });
  add('check', 'Check This Notebook', () => check(given), {
    isEnabled: isOpen,
    iconClass: 'nki-lab-icon',
    caption: 'List the findings in %%nki cells',
  });
  add('fix', 'Apply a Quick Fix', () => fix(notebooks.activeCell, fixes, given.tell), { isEnabled: isOpen });
  add('explain', 'Explain the Code at the Cursor', () => explain(notebooks.activeCell, session, given.tell), {
    isEnabled: isOpen,
  });
  app.commands.addCommand('nki-lab:target', {
    label: ({ target }: { target?: string }) => (target ? `Target ${target}` : 'Target of the Project'),
    execute: ({ target }: { target?: string }) => settings?.set('target', target ?? ''),
    isToggled: ({ target }: { target?: string }) => (settings?.composite.target ?? '') === (target ?? ''),
  });
  for (const target of declared.properties.target.enum)
    palette?.addItem({ command: 'nki-lab:target', category: CATEGORY, args: { target } });
  settings?.changed.connect(() => app.commands.notifyCommandChanged('nki-lab:target'));
  if ((status?.examples.length ?? 0) === 0) return;
  add(
    'examples',
    ({ isLauncher }) => (isLauncher === true ? 'NKI Examples' : 'Open the Examples'),
    () => examples(given),
    {
      iconClass: 'nki-lab-icon',
      caption: 'Copy the example notebooks and open the first',
    },
  );
  const shown = { args: { isLauncher: true }, kernelIconUrl: ICON };
  launcher?.add({ command: 'nki-lab:examples', category: 'Notebook', rank: 50, ...shown });
}

async function insert(commands: Commands, notebooks: Tracker): Promise<void> {
  await commands.execute('notebook:insert-cell-below');
  const cell = notebooks.activeCell?.model.sharedModel;
  cell?.updateSource(0, cell.getSource().length, NEW_CELL);
  await commands.execute('notebook:enter-edit-mode');
}

async function fix(cell: Cell | null, fixes: FixMenu, tell: Notices): Promise<void> {
  if (!cell?.editor) return;
  const isOpen = await fixes.open(cell.model.sharedModel, cell.editor.editor);
  if (!isOpen) tell.brief('Nothing to fix on this line.');
}

async function explain(cell: Cell | null, session: Session, tell: Notices): Promise<void> {
  const line = cell?.editor?.getCursorPosition().line ?? 0;
  const found = cell === null ? [] : session.findings(cell.model.sharedModel);
  const here = found.find(({ range }) => range.start.line <= line && line <= range.end.line) ?? found[0];
  if (here?.code === undefined) tell.brief('No finding in this cell.');
  else await session.execute('nki-lab.explain', [here.code]);
}

/** The findings of the notebook, to go through with the keyboard. */
function check({ notebooks, session, tell, dialogs }: Given): void {
  const panel = notebooks.currentWidget;
  if (panel === null) return;
  const list = session.all(panel).flatMap(({ cell, findings }) => findings.map(item => ({ cell, item })));
  if (list.length === 0) {
    tell.brief(
      session.isReady ? 'No findings in the %%nki cells of this notebook.' : 'No language server for %%nki cells.',
    );
    return;
  }
  const node = element('div', 'nki-lab-list');
  for (const { cell, item } of list) {
    const row = element('button', 'nki-lab-row');
    const index = panel.content.widgets.findIndex(({ model }) => model.sharedModel === cell);
    row.append(element('span', 'nki-lab-where', `cell ${index + 1}, line ${item.range.start.line + 1}`), finding(item));
    row.addEventListener('click', () => {
      close();
      void go(panel, index, item);
    });
    node.append(row);
  }
  const close = dialogs.open(`${list.length} finding${list.length === 1 ? '' : 's'}`, node);
}

async function go(panel: Panel, index: number, { range }: Diagnostic): Promise<void> {
  panel.content.activeCellIndex = index;
  await panel.content.scrollToItem(index);
  panel.content.mode = 'edit';
  const editor = panel.content.widgets[index]?.editor;
  const view = editor?.editor;
  view?.dispatch({ selection: { anchor: offsetOf(view.state.doc.toString(), range.start) }, scrollIntoView: true });
  editor?.focus();
}

/** Copy the examples beside the notebooks, as far as they are not there, and open the first. */
async function examples({ app, fetchJson, status, tell }: Given): Promise<void> {
  const { contents } = app.serviceManager;
  const isThere = async (path: string): Promise<boolean> =>
    contents.get(path, { content: false }).then(
      () => true,
      () => false,
    );
  if (!(await isThere(FOLDER))) await contents.save(FOLDER, { type: 'directory', format: 'json', name: FOLDER });
  for (const name of status?.examples ?? []) {
    const path = `${FOLDER}/${name}`;
    if (await isThere(path)) continue;
    const content = await fetchJson(`examples/${name}`);
    if (content === null) tell.once('error', `The example ${name} could not be read from the server.`);
    else await contents.save(path, { type: 'notebook', format: 'json', content });
  }
  await app.commands.execute('docmanager:open', { path: `${FOLDER}/${status?.examples[0] ?? ''}` });
}
