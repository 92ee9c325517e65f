/** A notebook as the language server knows it, and what brings that up to date. */

import { MAGIC } from '../plugin';

/** A code cell: its address for the server, and its text with the magic line. */
export interface CellText {
  readonly uri: string;
  readonly text: string;
}

interface Known {
  readonly uri: string;
  version: number;
  text: string;
}

type Tell = (method: string, params: object) => void;

/** Whether a cell is one of ours. */
export function isNki(text: string): boolean {
  return MAGIC.test(text);
}

export class NotebookText {
  private cells: Known[] = [];
  private version = 0;
  private isOpen = false;

  constructor(readonly uri: string) {}

  /** The version of a cell that the server has; undefined where it has none. */
  versionOf(uri: string): number | undefined {
    return this.cells.find(cell => cell.uri === uri)?.version;
  }

  textOf(uri: string): string | undefined {
    return this.cells.find(cell => cell.uri === uri)?.text;
  }

  /** Tell the server the cells as they are now. */
  sync(now: readonly CellText[], tell: Tell): void {
    if (!this.isOpen) this.open(now, tell);
    else {
      this.restructure(now, tell);
      this.retype(now, tell);
    }
  }

  close(tell: Tell): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    const cellTextDocuments = this.cells.map(({ uri }) => ({ uri }));
    tell('notebookDocument/didClose', { notebookDocument: { uri: this.uri }, cellTextDocuments });
    this.cells = [];
  }

  /** The server is another one, which knows nothing. */
  forget(): void {
    this.isOpen = false;
    this.cells = [];
  }

  private open(now: readonly CellText[], tell: Tell): void {
    this.isOpen = true;
    this.cells = now.map(cell => ({ ...cell, version: 1 }));
    const notebookDocument = {
      uri: this.uri,
      notebookType: 'jupyter-notebook',
      version: ++this.version,
      cells: now.map(inOrder),
    };
    tell('notebookDocument/didOpen', { notebookDocument, cellTextDocuments: now.map(asDocument) });
  }

  /** Replace the cells between those that are the same above and below. */
  private restructure(now: readonly CellText[], tell: Tell): void {
    const before = this.cells;
    let start = 0;
    while (start < before.length && start < now.length && before[start].uri === now[start].uri) start++;
    let same = 0;
    const most = Math.min(before.length, now.length) - start;
    while (same < most && before[before.length - 1 - same].uri === now[now.length - 1 - same].uri) same++;
    const removed = before.slice(start, before.length - same);
    const added = now.slice(start, now.length - same);
    if (removed.length === 0 && added.length === 0) return;
    const kept = new Map(removed.map(cell => [cell.uri, cell]));
    const opened = added.filter(cell => !kept.has(cell.uri));
    const cells = added.map(cell => kept.get(cell.uri) ?? { ...cell, version: 1 });
    const left = new Set(added.map(cell => cell.uri));
    const closed = removed.filter(cell => !left.has(cell.uri));
    this.cells = [...before.slice(0, start), ...cells, ...before.slice(before.length - same)];
    this.change(tell, {
      structure: {
        array: { start, deleteCount: removed.length, cells: added.map(inOrder) },
        didOpen: opened.map(asDocument),
        didClose: closed.map(({ uri }) => ({ uri })),
      },
    });
  }

  private retype(now: readonly CellText[], tell: Tell): void {
    const textContent = [];
    for (const [index, known] of this.cells.entries()) {
      const { text } = now[index];
      if (known.text === text) continue;
      known.text = text;
      known.version++;
      textContent.push({ document: { uri: known.uri, version: known.version }, changes: [{ text }] });
    }
    if (textContent.length > 0) this.change(tell, { textContent });
  }

  private change(tell: Tell, cells: object): void {
    const notebookDocument = { uri: this.uri, version: ++this.version };
    tell('notebookDocument/didChange', { notebookDocument, change: { cells } });
  }
}

function inOrder({ uri }: CellText): object {
  return { kind: 2, document: uri };
}

function asDocument({ uri, text }: CellText): object {
  return { uri, languageId: 'python', version: 1, text };
}
