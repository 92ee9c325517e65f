/** The notebooks of the page at the language server: their cells go there, findings come back. */

import { Connection } from './connection';
import type { Socket } from './connection';
import type { CellModel, Panel, SharedCell } from './jupyter';
import { NotebookText, isNki } from './notebook_text';
import { offsetsIn } from './positions';
import { ABILITIES } from './protocol';
import type { Diagnostic, Initialized, Legend, WorkspaceEdit } from './protocol';
import { RefusedError } from './rpc';

/** Milliseconds from typing to the server; whatever asks the server does not wait for them. */
const PAUSE = 40;

/** What the page has to know of the server. */
export interface Host {
  open(): Socket;
  /** The URI of the folder of all notebooks; empty where they are in none. */
  readonly root: string;
  settings(): object;
  /** There will be no language server, and why. */
  fail(reason: string): void;
  /** Show the page that an action has answered with: a code's. */
  show(markdown: string): void;
  message(text: string): void;
}

interface Notebook {
  readonly panel: Panel;
  readonly text: NotebookText;
  readonly uris: Map<string, SharedCell>;
  release(): void;
}

export class Session {
  readonly connection: Connection;
  /** What semantic tokens of the server mean; null before it has said so. */
  legend: Legend | null = null;
  private readonly notebooks = new Map<Panel, Notebook>();
  private readonly owners = new WeakMap<SharedCell, { readonly notebook: Notebook; readonly uri: string }>();
  private readonly told = new Map<string, readonly Diagnostic[]>();
  private readonly watchers = new Map<SharedCell, Set<() => void>>();
  private readonly listeners = new Set<() => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly host: Host) {
    this.connection = new Connection({
      open: () => host.open(),
      first: () => this.first(),
      peer: { told: (method, params) => this.hear(method, params), asked: method => this.reply(method) },
      ready: answer => {
        this.legend = (answer as Initialized | null)?.capabilities.semanticTokensProvider?.legend ?? null;
        this.sync();
        this.tellAll();
      },
      lost: reason => this.lose(reason),
    });
  }

  /** Follow a notebook until it closes. */
  async add(panel: Panel): Promise<void> {
    await panel.context.ready;
    if (this.notebooks.has(panel)) return;
    this.follow(panel);
    panel.context.pathChanged.connect(() => {
      this.drop(panel);
      this.follow(panel);
    });
    panel.disposed.connect(() => this.drop(panel));
  }

  /** The findings of a cell that is one of ours. */
  findings(cell: SharedCell): readonly Diagnostic[] {
    const uri = this.owners.get(cell)?.uri;
    return uri !== undefined && isNki(cell.getSource()) ? (this.told.get(uri) ?? []) : [];
  }

  /** The cells of a notebook with findings, in order. */
  all(panel: Panel): { readonly cell: SharedCell; readonly findings: readonly Diagnostic[] }[] {
    return codeCells(panel).map(cell => ({ cell, findings: this.findings(cell) }));
  }

  /** Whether a notebook has cells of ours. */
  has(panel: Panel): boolean {
    return codeCells(panel).some(cell => isNki(cell.getSource()));
  }

  /** Call back when there is news of a cell's findings or shapes; gives the end of that. */
  watch(cell: SharedCell, listener: () => void): () => void {
    const found = this.watchers.get(cell) ?? new Set();
    this.watchers.set(cell, found.add(listener));
    return () => {
      found.delete(listener);
      if (found.size === 0) this.watchers.delete(cell);
    };
  }

  /** Call back when there is news of any cell. */
  listen(listener: () => void): void {
    this.listeners.add(listener);
  }

  /**
   * The target that the active cell of a notebook is checked for: it may name one, and others have that of the notebook.
   * Empty where no server knows it.
   */
  async target(panel: Panel): Promise<string> {
    const cell = panel.content.activeCell?.model.sharedModel;
    const active = cell === undefined ? undefined : this.owners.get(cell)?.uri;
    const uri = active ?? this.notebooks.get(panel)?.uris.keys().next().value;
    if (uri === undefined) return '';
    this.sync();
    const found = await this.call('workspace/executeCommand', { command: 'nki-lab.target', arguments: [uri] });
    return typeof found === 'string' ? found : '';
  }

  get isReady(): boolean {
    return this.connection.rpc !== null;
  }

  /** Ask the server about a cell, as it is typed now; null where the cell is none of ours or there is no server. */
  async ask<T>(cell: SharedCell, method: string, params: object, signal?: AbortSignal): Promise<T | null> {
    const owner = this.owners.get(cell);
    if (owner === undefined || !isNki(cell.getSource())) return null;
    this.sync();
    try {
      const more = { textDocument: { uri: owner.uri }, ...params };
      return ((await this.connection.rpc?.request(method, more, signal)) ?? null) as T | null;
    } catch (error) {
      if (error instanceof RefusedError) return null;
      throw error;
    }
  }

  /** Ask the server for something that is no cell's. */
  async call(method: string, params: object): Promise<unknown> {
    return this.connection.rpc?.request(method, params).catch(() => null);
  }

  /** Carry out a command of the server; the page that it answers with is shown. */
  async execute(command: string, given: readonly unknown[]): Promise<void> {
    const answer = await this.call('workspace/executeCommand', { command, arguments: given });
    if (typeof answer === 'string') this.host.show(answer);
  }

  /** Settings have changed. */
  configure(): void {
    this.connection.rpc?.notify('workspace/didChangeConfiguration', { settings: this.host.settings() });
    this.tellAll();
  }

  /** Make the changes of an edit in all cells that it names. */
  apply(edit: WorkspaceEdit): void {
    for (const [uri, edits] of Object.entries(edit.changes ?? {})) {
      const cell = [...this.notebooks.values()].map(({ uris }) => uris.get(uri)).find(found => found !== undefined);
      cell?.transact(() => {
        for (const [start, end, text] of offsetsIn(cell.getSource(), edits)) cell.updateSource(start, end, text);
      });
    }
  }

  // -- notebooks ------------------------------------------------------------------------------------------------------

  private follow(panel: Panel): void {
    const later = (): void => this.later();
    const { cells } = panel.context.model;
    let heard: SharedCell[] = [];
    const rewire = (): void => {
      for (const cell of heard) cell.changed.disconnect(later);
      heard = codeCells(panel);
      for (const cell of heard) cell.changed.connect(later);
      later();
    };
    const uri = this.uriOf(panel.context.path);
    const release = (): void => {
      cells.changed.disconnect(rewire);
      for (const cell of heard) cell.changed.disconnect(later);
    };
    this.notebooks.set(panel, { panel, text: new NotebookText(uri), uris: new Map(), release });
    cells.changed.connect(rewire);
    rewire();
  }

  private drop(panel: Panel): void {
    const notebook = this.notebooks.get(panel);
    if (notebook === undefined) return;
    notebook.release();
    this.notebooks.delete(panel);
    const { rpc } = this.connection;
    if (rpc !== null) notebook.text.close((method, params) => rpc.notify(method, params));
    for (const uri of notebook.uris.keys()) this.told.delete(uri);
    if (this.notebooks.size === 0) this.connection.stop();
  }

  /** A collaborative path begins with its drive. */
  private uriOf(path: string): string {
    const local = path
      .replace(/^[A-Za-z]+:/, '')
      .split('/')
      .map(encodeURIComponent)
      .join('/');
    return this.host.root === '' ? `jupyter:///${local}` : `${this.host.root.replace(/\/$/, '')}/${local}`;
  }

  private later(): void {
    this.timer ??= setTimeout(() => this.sync(), PAUSE);
  }

  private sync(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    for (const notebook of this.notebooks.values()) this.syncOne(notebook);
  }

  private syncOne(notebook: Notebook): void {
    const cells = codeCells(notebook.panel);
    const texts = cells.map(cell => ({
      uri: `vscode-notebook-cell:${notebook.text.uri}#${cell.id}`,
      text: cell.getSource(),
    }));
    if (!texts.some(({ text }) => isNki(text)) && notebook.uris.size === 0) return; // none of our business
    notebook.uris.clear();
    for (const [index, { uri }] of texts.entries()) {
      notebook.uris.set(uri, cells[index]);
      this.owners.set(cells[index], { notebook, uri });
    }
    this.connection.start();
    const { rpc } = this.connection;
    if (rpc === null) return;
    let told = false;
    notebook.text.sync(texts, (method, params) => {
      told = true;
      rpc.notify(method, params);
    });
    // What is not a finding may have changed as well: the target that a cell names.
    if (told) queueMicrotask(() => this.news());
  }

  // -- the server -----------------------------------------------------------------------------------------------------

  private first(): object {
    const folders = this.host.root === '' ? null : [{ uri: this.host.root, name: 'notebooks' }];
    return {
      processId: null,
      clientInfo: { name: 'JupyterLab' },
      rootUri: this.host.root || null,
      workspaceFolders: folders,
      capabilities: ABILITIES,
      initializationOptions: this.host.settings(),
    };
  }

  private lose(reason: string): void {
    for (const { text } of this.notebooks.values()) text.forget();
    this.told.clear();
    this.tellAll();
    if (reason !== '') this.host.fail(reason);
  }

  private hear(method: string, params: unknown): void {
    if (method === 'textDocument/publishDiagnostics') this.publish(params as Published);
    else if (method === 'window/showMessage') this.host.message((params as { message: string }).message);
  }

  private reply(method: string): unknown {
    if (method === 'workspace/inlayHint/refresh' || method === 'workspace/semanticTokens/refresh') {
      this.tellAll();
      return null;
    }
    return undefined; // JSON-RPC's "no such method"
  }

  private publish({ uri, version, diagnostics }: Published): void {
    for (const { text, uris } of this.notebooks.values()) {
      const cell = uris.get(uri);
      if (cell === undefined) continue;
      // Findings of a text that was typed in since: newer ones are on their way.
      if (version !== undefined && version !== null && version !== text.versionOf(uri)) return;
      if (cell.getSource() !== text.textOf(uri)) return;
      this.told.set(uri, diagnostics);
      this.tell(cell);
    }
    this.news();
  }

  private tell(cell: SharedCell): void {
    for (const listener of this.watchers.get(cell) ?? []) listener();
  }

  private tellAll(): void {
    for (const cell of this.watchers.keys()) this.tell(cell);
    this.news();
  }

  private news(): void {
    for (const listener of this.listeners) listener();
  }
}

interface Published {
  readonly uri: string;
  readonly version?: number | null;
  readonly diagnostics: readonly Diagnostic[];
}

function codeCells(panel: Panel): SharedCell[] {
  const code = (cell: CellModel): boolean => cell.type === 'code';
  return [...panel.context.model.cells].filter(code).map(cell => cell.sharedModel);
}
