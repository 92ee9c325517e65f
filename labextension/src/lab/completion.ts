/** Completions of the language server, in JupyterLab's own list. */

import { positionIn } from './decorations';
import type { Editor } from './jupyter';
import { isNki } from './notebook_text';
import { charactersOf, offsetOf } from './positions';
import { textOf } from './protocol';
import type { CompletionItem, CompletionList } from './protocol';
import type { Session } from './session';

/** Above the kernel's completions and those of the notebook's words. */
const RANK = 1_000;
const DEPRECATED = 1;
/** The protocol's kinds, under the names that JupyterLab has icons for. */
const KINDS = [
  '', 'text', 'method', 'function', 'constructor', 'field', 'variable', 'class', 'interface', 'module', 'property',
  'unit', 'value', 'enum', 'keyword', 'snippet', 'color', 'file', 'reference', 'folder', 'enumMember', 'constant',
  'struct', 'event', 'operator', 'typeParameter',
]; // prettier-ignore

interface Context {
  readonly editor?: Editor | null;
}

interface Item {
  readonly label: string;
  readonly insertText: string;
  readonly type: string;
  readonly deprecated: boolean;
  documentation: string;
  readonly source: CompletionItem;
}

interface Reply {
  readonly start: number;
  readonly end: number;
  readonly items: Item[];
}

export function completions(session: Session): unknown {
  return {
    identifier: 'nki-lab',
    rank: RANK,
    renderer: null,
    isApplicable: ({ editor }: Context): Promise<boolean> =>
      Promise.resolve(session.isReady && isNki(editor?.model.sharedModel.getSource() ?? '')),
    async fetch(_: unknown, { editor }: Context, trigger = 1): Promise<Reply> {
      if (!editor) return { start: 0, end: 0, items: [] };
      const { doc, selection } = editor.editor.state;
      const [text, { head }] = [doc.toString(), selection.main];
      const typed = text.charAt(head - 1);
      const context =
        trigger === 2 && /[.(,= ]/.test(typed) ? { triggerKind: 2, triggerCharacter: typed } : { triggerKind: 1 };
      const given = { position: positionIn(doc, head), context };
      const found = await session.ask<CompletionList>(editor.model.sharedModel, 'textDocument/completion', given);
      return replyOf(text, head, found);
    },
    async resolve(item: Item): Promise<Item> {
      const found = (await session.call('completionItem/resolve', item.source)) as CompletionItem | null;
      return { ...item, documentation: textOf(found?.documentation) || item.documentation };
    },
    shouldShowContinuousHint(isVisible: boolean, changed: { sourceChange?: readonly { insert?: unknown }[] }): boolean {
      const text = changed.sourceChange?.find(part => typeof part.insert === 'string')?.insert;
      return !isVisible && typeof text === 'string' && /^[.(,=]$/.test(text);
    },
  };
}

/** The list in the order of the server, its places counted in characters as JupyterLab does. */
export function replyOf(text: string, head: number, found: CompletionList | null): Reply {
  const items = [...(found?.items ?? [])].sort((one, other) =>
    compare(one.sortText ?? one.label, other.sortText ?? other.label),
  );
  const range = items[0]?.textEdit?.range ?? found?.itemDefaults?.editRange;
  const start = range === undefined ? head : offsetOf(text, range.start);
  const typed = text.slice(start, head).toLowerCase();
  return {
    start: charactersOf(text, start),
    end: charactersOf(text, head),
    // JupyterLab shows what it is given, and compares only what is typed from then on.
    items: items
      .filter(item => (item.filterText ?? item.label).toLowerCase().startsWith(typed))
      .map(source => ({
        label: source.label,
        insertText: source.textEdit?.newText ?? source.insertText ?? source.label,
        type: KINDS[source.kind ?? 0] ?? '',
        deprecated: source.tags?.includes(DEPRECATED) ?? false,
        documentation: [source.labelDetails?.detail, source.labelDetails?.description, source.detail]
          .filter(part => part !== undefined && part !== '')
          .join(' · '),
        source,
      })),
  };
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}
