/** The parts of JupyterLab's objects that the panel uses; the page gives them. */
import type { Panel, Signal } from '../lab/jupyter';
import type { Bundle } from '../saved/runs';

/** What an output of a cell has. */
export interface OutputModel {
  readonly data: Bundle;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface Outputs {
  readonly length: number;
  get(index: number): OutputModel;
  readonly changed: Signal<unknown, unknown>;
}

export interface CellChange {
  readonly sourceChange?: unknown;
  readonly executionCountChange?: { readonly newValue?: number | null };
}

export interface CodeCell {
  readonly type: string;
  readonly id: string;
  readonly executionCount?: number | null;
  readonly outputs?: Outputs;
  readonly sharedModel: {
    readonly changed: Signal<unknown, CellChange>;
    getSource(): string;
  };
}

export interface Renderer extends Lumino {
  renderModel(model: object): Promise<void>;
}

/** A notebook with what draws its outputs. */
export interface NotebookPanel extends Omit<Panel, 'content'> {
  readonly node: HTMLElement;
  readonly title: { readonly label: string };
  readonly isDisposed?: boolean;
  readonly content: {
    readonly rendermime: { createRenderer(mimeType: string): Renderer };
    readonly widgets: readonly { readonly node: HTMLElement; readonly model: { readonly id: string } }[];
  };
}

export interface Notebooks {
  readonly currentWidget: NotebookPanel | null;
  readonly widgetAdded: Signal<unknown, NotebookPanel>;
  forEach(take: (panel: NotebookPanel) => void): void;
}

/** What is used of a widget of @lumino/widgets. */
export interface Lumino {
  id: string;
  readonly node: HTMLElement;
  readonly title: { label: string; caption: string; closable: boolean; iconClass: string };
  readonly isDisposed: boolean;
  readonly isAttached: boolean;
  addClass(name: string): void;
  activate(): void;
  onCloseRequest(message: unknown): void;
  dispose(): void;
}

export interface LuminoModule {
  readonly Widget: (new () => Lumino) & {
    attach(widget: Lumino, host: HTMLElement): void;
    detach(widget: Lumino): void;
  };
}

export interface WidgetTracker<T> {
  add(widget: T): Promise<void>;
  save(widget: T): Promise<void>;
  forEach(take: (widget: T) => void): void;
  readonly currentWidget: T | null;
}

export interface Restorer {
  restore(tracker: unknown, options: object): Promise<unknown>;
}

export interface Shell {
  add(widget: Lumino, area: string, options?: object): void;
  activateById(id: string): void;
}
