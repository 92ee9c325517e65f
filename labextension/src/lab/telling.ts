/** Notices of JupyterLab, each once, and pages in a dialog. */

import type { Render } from './markdown';

type Kind = 'info' | 'warning' | 'error';

/** What is used of @jupyterlab/apputils. */
export interface Apputils {
  readonly Notification: {
    emit(message: string, kind: Kind, options: object): string;
  };
  readonly Dialog: (new (options: object) => Shown) & { okButton(options: object): unknown };
}

interface Shown {
  launch(): Promise<unknown>;
  dispose(): void;
}

export interface Notices {
  /** Tell something for a few seconds. */
  brief(text: string): void;
  /** Tell something, unless it was told before; `action` is a button. */
  once(kind: Kind, text: string, action?: string, act?: () => void): void;
}

/** JupyterLab shows so many characters of a notice. */
const MOST = 140;
const BRIEF = 4_000;

export function notices({ Notification }: Apputils): Notices {
  const told = new Set<string>();
  return {
    brief: text => void Notification.emit(text, 'info', { autoClose: BRIEF }),
    once(kind, text, label, act) {
      if (told.has(text)) return;
      told.add(text);
      const actions = label === undefined ? [] : [{ label, callback: () => (told.delete(text), act?.()) }];
      Notification.emit(text.length > MOST ? `${text.slice(0, MOST - 1)}…` : text, kind, { autoClose: false, actions });
    },
  };
}

export interface Dialogs {
  /** Show Markdown. */
  page(markdown: string): void;
  /** Show an element; gives what closes it. */
  open(title: string, node: HTMLElement): () => void;
}

export function dialogs(
  { Dialog }: Apputils,
  lumino: Readonly<Record<string, unknown>> | undefined,
  render: Render,
): Dialogs {
  const Widget = lumino?.Widget as new (options: { node: HTMLElement }) => unknown;
  const open = (title: string, node: HTMLElement, done: () => void = () => undefined): (() => void) => {
    const body = new Widget({ node });
    const dialog = new Dialog({ title, body, buttons: [Dialog.okButton({ label: 'Close' })] });
    void dialog.launch().then(done, done);
    return () => dialog.dispose();
  };
  return {
    open,
    page(markdown) {
      const body = render(markdown);
      body.node.classList.add('nki-lab-page');
      open('NKI', body.node, () => body.dispose());
    },
  };
}
