/** The JupyterLab plugin: cells, commands and status, over the server's extension where there is one. */

import type { Extension } from '@codemirror/state';

import tokens from '../_generated/tokens.css';
import { leaveToOthers } from '../plugin';
import type { Connections, Extractors } from '../plugin';
import { useStyle } from '../styles';
import { addCommands } from './commands';
import type { Commands, Launcher, Palette } from './commands';
import { completions } from './completion';
import type { Socket } from './connection';
import { drawing } from './editor';
import type { CodeMirror } from './editor';
import type { LuminoModule, Notebooks, Restorer, Shell } from '../panel/jupyter';
import { addPanels, type PanelServices } from '../panel/plugin';
import { ICON_RULE } from './icon';
import type { CellModel, Panel, Tracker } from './jupyter';
import lab from './lab.css';
import { renderWith } from './markdown';
import type { Renderers } from './markdown';
import { isNki } from './notebook_text';
import { Session } from './session';
import { addStatus } from './status';
import type { StatusBar } from './status';
import { dialogs as dialogsOf, notices } from './telling';
import type { Apputils } from './telling';

const ID = 'nki-lab:plugin';
/** What `pip` installs all parts with. */
export const INSTALL = "pip install 'nki-lab[notebook]'";

/** The packages of JupyterLab whose modules the plugin takes from the page; Notebook 7 lacks some. */
export const PACKAGES = [
  '@codemirror/state',
  '@codemirror/view',
  '@jupyterlab/application',
  '@jupyterlab/apputils',
  '@jupyterlab/codemirror',
  '@jupyterlab/completer',
  '@jupyterlab/launcher',
  '@jupyterlab/lsp',
  '@jupyterlab/notebook',
  '@jupyterlab/rendermime',
  '@jupyterlab/services',
  '@jupyterlab/settingregistry',
  '@jupyterlab/statusbar',
  '@lumino/widgets',
] as const;

type Module = Readonly<Record<string, unknown>> | undefined;
export type Modules = Readonly<Record<(typeof PACKAGES)[number], Module>>;

/** The services that the plugin is activated with, by the name used here: package and token. */
const SERVICES = {
  notebooks: ['@jupyterlab/notebook', 'INotebookTracker'],
  extensions: ['@jupyterlab/codemirror', 'IEditorExtensionRegistry'],
  completers: ['@jupyterlab/completer', 'ICompletionProviderManager'],
  settings: ['@jupyterlab/settingregistry', 'ISettingRegistry'],
  renderers: ['@jupyterlab/rendermime', 'IRenderMimeRegistry'],
  palette: ['@jupyterlab/apputils', 'ICommandPalette'],
  status: ['@jupyterlab/statusbar', 'IStatusBar'],
  launcher: ['@jupyterlab/launcher', 'ILauncher'],
  restorer: ['@jupyterlab/application', 'ILayoutRestorer'],
  extractors: ['@jupyterlab/lsp', 'ILSPCodeExtractorsManager'],
  connections: ['@jupyterlab/lsp', 'ILSPDocumentConnectionManager'],
} as const satisfies Readonly<Record<string, readonly [keyof Modules, string]>>;

interface Services {
  readonly notebooks: Tracker | null;
  readonly extensions: { addExtension(factory: object): void } | null;
  readonly completers: { registerProvider(provider: unknown): void } | null;
  readonly settings: { load(id: string): Promise<Settings> } | null;
  readonly renderers: Renderers | null;
  readonly palette: Palette | null;
  readonly status: StatusBar | null;
  readonly launcher: Launcher | null;
  readonly restorer: Restorer | null;
  readonly extractors: Extractors | null;
  readonly connections: Connections | null;
}

/** The settings of the plugin. */
export interface Settings {
  readonly composite: Readonly<Record<string, unknown>>;
  readonly changed: { connect(slot: () => void): boolean };
  set(name: string, value: unknown): Promise<void>;
}

interface App {
  readonly commands: Commands;
  readonly shell: Shell;
  readonly serviceManager: {
    readonly contents: {
      get(path: string, options: object): Promise<unknown>;
      save(path: string, options: object): Promise<unknown>;
    };
  };
}

interface ServerSettings {
  readonly baseUrl: string;
  readonly wsUrl: string;
  readonly token: string;
  readonly appendToken?: boolean;
  readonly WebSocket: new (url: string) => Socket;
}

interface ServerConnection {
  makeSettings(): ServerSettings;
  makeRequest(url: string, init: object, settings: ServerSettings): Promise<Response>;
}

/** What the extension of the server says of itself. */
export interface Status {
  readonly root: string;
  readonly missing: string;
  readonly examples: readonly string[];
}

export function plugin(modules: Modules): unknown {
  const names = Object.keys(SERVICES) as (keyof Services)[];
  const tokens = names.map(name => modules[SERVICES[name][0]]?.[SERVICES[name][1]]);
  const known = names.filter((_, index) => tokens[index] !== undefined);
  return {
    id: ID,
    description: 'The language server in %%nki cells, commands, and examples.',
    autoStart: true,
    optional: tokens.filter(token => token !== undefined),
    activate: async (app: App, ...given: unknown[]): Promise<void> => {
      const services = Object.fromEntries(names.map(name => [name, given[known.indexOf(name)] ?? null]));
      await activate(app, modules, services as unknown as Services);
    },
  };
}

async function activate(app: App, modules: Modules, services: Services): Promise<void> {
  const { notebooks } = services;
  const server = modules['@jupyterlab/services']?.ServerConnection as ServerConnection | undefined;
  if (notebooks === null || server === undefined) return;
  useStyle('lab', lab + tokens + ICON_RULE);
  const apputils = modules['@jupyterlab/apputils'] as unknown as Apputils;
  let composite: Readonly<Record<string, unknown>> = {};
  addPanels({
    app,
    notebooks: notebooks as unknown as Notebooks,
    palette: services.palette,
    restorer: services.restorer,
    settings: () => composite,
    lumino: modules['@lumino/widgets'] as unknown as LuminoModule,
    Tracker: modules['@jupyterlab/apputils']?.WidgetTracker as PanelServices['Tracker'],
  });
  const address = server.makeSettings();
  const fetchJson = async (path: string): Promise<unknown> => {
    const answer = await server.makeRequest(`${address.baseUrl}nki-lab/${path}`, {}, address);
    return answer.ok ? answer.json() : null;
  };
  const tell = notices(apputils);
  const [status, settings] = await Promise.all([
    fetchJson('status').catch(() => null) as Promise<Status | null>,
    services.settings?.load(ID).catch(() => null) ?? null,
  ]);
  const keepSettings = (): void => void (composite = settings?.composite ?? {});
  keepSettings();
  settings?.changed.connect(keepSettings);
  const hint = status === null ? `Jupyter Server has no nki_lab: ${INSTALL}, then restart it` : status.missing;
  if (status?.missing !== '') {
    leaveToOthers(services);
    whenNki(notebooks, () => tell.once('warning', `No findings in %%nki cells: ${hint}.`));
  }
  const render = renderWith(services.renderers);
  const dialogs = dialogsOf(apputils, modules['@lumino/widgets'], render);
  const session = new Session({
    open: () => new address.WebSocket(socketUrl(address)),
    root: status?.root ?? '',
    settings: () => ofServer(settings?.composite ?? {}),
    fail: reason =>
      tell.once('error', `No findings in %%nki cells: ${reason}.`, 'Try again', () => session.connection.restart()),
    show: markdown => dialogs.page(markdown),
    message: text => tell.once('info', text),
  });
  const registry = modules['@jupyterlab/codemirror']?.EditorExtensionRegistry as
    { createImmutableExtension(extension: Extension): unknown } | undefined;
  const cm = { state: modules['@codemirror/state'], view: modules['@codemirror/view'] } as unknown as CodeMirror;
  const hasColours = (): boolean => settings?.composite.colours !== false;
  const drawn = drawing({ cm, session, render, hasColours });
  if (status?.missing === '') {
    services.extensions?.addExtension({
      name: 'nki-lab',
      factory: ({ model }: { model: CellModel }) => {
        if (model.type !== 'code') return null;
        return registry?.createImmutableExtension(drawn.of(model.sharedModel)) ?? null;
      },
    });
    services.completers?.registerProvider(completions(session));
    settings?.changed.connect(() => session.configure());
    const add = (panel: Panel): void => void session.add(panel);
    notebooks.forEach(add);
    notebooks.widgetAdded.connect((_, panel) => add(panel));
  }
  const { palette, launcher } = services;
  addCommands({
    app,
    palette,
    launcher,
    notebooks,
    session,
    settings,
    fixes: drawn.fixes,
    tell,
    dialogs,
    fetchJson,
    status,
  });
  addStatus({ bar: services.status, Widget: modules['@lumino/widgets']?.Widget, notebooks, session, settings, app });
}

/** The settings without those of the panel, which the language server does not know. */
function ofServer(all: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(all).filter(([name]) => !name.startsWith('panel.')));
}

function socketUrl({ wsUrl, token, appendToken }: ServerSettings): string {
  return `${wsUrl}nki-lab/lsp${appendToken && token !== '' ? `?token=${encodeURIComponent(token)}` : ''}`;
}

/** Call back as soon as a notebook has a cell of ours. */
function whenNki(notebooks: Tracker, found: () => void): void {
  const look = async ({ context }: Panel): Promise<void> => {
    await context.ready;
    const check = (): void => {
      if ([...context.model.cells].some(cell => cell.type === 'code' && isNki(cell.sharedModel.getSource()))) found();
    };
    check();
    context.model.cells.changed.connect(check);
  };
  notebooks.forEach(panel => void look(panel));
  notebooks.widgetAdded.connect((_, panel) => void look(panel));
}
