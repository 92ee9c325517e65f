/** Shows the bodies of `%%nki` cells to the language servers of jupyterlab-lsp. */

export const MAGIC = /^%%nki\b/;

interface Position {
  readonly line: number;
  readonly column: number;
}

/** A part of a cell in another language, as @jupyterlab/lsp wants it. */
export interface ForeignCode {
  readonly hostCode: string;
  readonly foreignCode: string;
  readonly range: { readonly start: Position; readonly end: Position };
  readonly virtualShift: null;
}

/** Takes everything below the magic line. Lines and columns of the cell stay what they are: the language server gets
 * the body, and the virtual document knows where it begins. */
export const extractor = {
  language: 'nki',
  // All cells of a notebook are one document: what one defines another may use.
  standalone: false,
  fileExtension: 'py',
  cellType: ['code'],
  hasForeignCode: (code: string, cellType: string): boolean => cellType === 'code' && MAGIC.test(code),
  extractForeignCode(code: string): ForeignCode[] {
    const lines = code.split('\n');
    const last = lines[lines.length - 1];
    return [
      {
        hostCode: '',
        foreignCode: lines.slice(1).join('\n'),
        range: {
          start: { line: 1, column: 0 },
          end: { line: Math.max(1, lines.length - 1), column: lines.length > 1 ? last.length : 0 },
        },
        virtualShift: null,
      },
    ];
  },
};

export interface Extractors {
  register(given: typeof extractor, host: string): void;
}

interface Signal<T> {
  connect(slot: (sender: unknown, value: T) => void): boolean;
  disconnect(slot: (sender: unknown, value: T) => void): boolean;
}

/** What shows a notebook to language servers. */
interface Adapter {
  readonly ready?: Promise<void>;
  readonly isDisposed: boolean;
  updateDocuments(): Promise<void>;
}

/** What @jupyterlab/lsp keeps of documents, by path. */
export interface Connections {
  readonly adapters: ReadonlyMap<string, Adapter>;
  readonly languageServerManager: {
    readonly sessions: ReadonlyMap<string, unknown>;
    readonly sessionsChanged: Signal<void>;
  };
}

interface Notebook {
  readonly context: { readonly path: string; readonly ready: Promise<void> };
}

interface Notebooks {
  forEach(take: (notebook: Notebook) => void): void;
  readonly widgetAdded: Signal<Notebook>;
}

/** The services of @jupyterlab/lsp, as far as the page has them, and the notebooks. */
export interface Services {
  readonly extractors: Extractors | null;
  readonly connections: Connections | null;
  readonly notebooks: Notebooks | null;
}

/** Where the server has no extension of ours, jupyterlab-lsp draws what it can. */
export function leaveToOthers({ extractors, connections, notebooks }: Services): void {
  extractors?.register(extractor, 'python');
  if (!connections || !notebooks) return;
  const open = (notebook: Notebook): void => void openCells(notebook, connections).catch(() => undefined);
  notebooks.forEach(open);
  notebooks.widgetAdded.connect((_, notebook) => open(notebook));
}

/** Where no server takes Python, JupyterLab looks for cells in other languages only after the first edit: look now. */
async function openCells({ context }: Notebook, connections: Connections): Promise<void> {
  await context.ready;
  const adapter = connections.adapters.get(context.path);
  if (adapter?.ready === undefined) return;
  await adapter.ready;
  const { sessions, sessionsChanged } = connections.languageServerManager;
  if (sessions.size === 0) await next(sessionsChanged);
  if (!adapter.isDisposed) await adapter.updateDocuments();
}

function next(signal: Signal<void>): Promise<void> {
  return new Promise(resolve => {
    const slot = (): void => {
      signal.disconnect(slot);
      resolve();
    };
    signal.connect(slot);
  });
}
