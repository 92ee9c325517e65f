/** What the server answers about all of a cell, for what is drawn in its editor. */

import type { Extension, Text } from '@codemirror/state';
import type { EditorView } from '@codemirror/view';

import type { Tools } from './editor';
import type { SharedCell } from './jupyter';

/** Milliseconds without typing before the server is asked. */
const PAUSE = 300;

export interface Question<T> {
  readonly method: string;
  readonly params: (doc: Text) => object;
  /** Draw an answer about the text as it is in the editor; null where there is nothing to draw. */
  readonly take: (view: EditorView, found: T | null) => void;
  /** Whether the user wants it; always, where not given. */
  readonly isWanted?: () => boolean;
}

/** An extension that asks after typing, and when there is news of the cell. */
export function answers<T>({ cm, session }: Tools, cell: SharedCell, question: Question<T>): Extension {
  const { method, params, take, isWanted = () => true } = question;
  return cm.view.ViewPlugin.define(view => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isGone = false;
    const load = async (): Promise<void> => {
      const { doc } = view.state;
      const found = isWanted() ? await session.ask<T>(cell, method, params(doc)) : null;
      if (isGone || !view.state.doc.eq(doc)) return;
      if (found !== null || !session.isReady || !isWanted()) take(view, found);
    };
    const later = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => void load(), PAUSE);
    };
    const release = session.watch(cell, later);
    later();
    return {
      update: change => {
        if (change.docChanged) later();
      },
      destroy: () => {
        isGone = true;
        clearTimeout(timer);
        release();
      },
    };
  });
}
