/** The parts of JupyterLab's objects that the extension uses; the page gives them. */

export interface Signal<S, T> {
  connect(slot: (sender: S, value: T) => void): boolean;
  disconnect(slot: (sender: S, value: T) => void): boolean;
}

/** The text of a cell, which all its editors share. */
export interface SharedCell {
  readonly id: string;
  readonly changed: Signal<unknown, { readonly sourceChange?: unknown }>;
  getSource(): string;
  updateSource(start: number, end: number, text: string): void;
  transact(change: () => void): void;
}

export interface CellModel {
  readonly type: string;
  readonly sharedModel: SharedCell;
  readonly outputs?: {
    readonly length: number;
    get(index: number): { readonly data: Readonly<Record<string, unknown>> };
  };
}

export interface Cells extends Iterable<CellModel> {
  readonly changed: Signal<unknown, unknown>;
}

export interface Editor {
  readonly editor: import('@codemirror/view').EditorView;
  readonly model: CellModel;
  focus(): void;
  getCursorPosition(): { readonly line: number; readonly column: number };
}

export interface Cell {
  readonly model: CellModel;
  readonly editor: Editor | null;
}

export interface Panel {
  readonly id: string;
  readonly context: {
    readonly path: string;
    readonly ready: Promise<void>;
    readonly model: { readonly cells: Cells };
    readonly pathChanged: Signal<unknown, string>;
  };
  readonly content: {
    readonly activeCell: Cell | null;
    activeCellIndex: number;
    readonly widgets: readonly Cell[];
    mode: string;
    scrollToItem(index: number): Promise<void>;
  };
  readonly disposed: Signal<unknown, unknown>;
}

export interface Tracker {
  readonly currentWidget: Panel | null;
  readonly activeCell: Cell | null;
  readonly widgetAdded: Signal<unknown, Panel>;
  readonly currentChanged: Signal<unknown, Panel | null>;
  readonly activeCellChanged: Signal<unknown, Cell | null>;
  forEach(take: (panel: Panel) => void): void;
}
