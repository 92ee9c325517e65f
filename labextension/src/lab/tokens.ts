/** Looks of names: tensors by memory, calls by engine, registers, values that are known at compile time. */

import type { Extension } from '@codemirror/state';
import type { Decoration } from '@codemirror/view';

import { answers } from './answers';
import { decorationsOf, offsetIn } from './decorations';
import type { Tools } from './editor';
import type { SharedCell } from './jupyter';
import type { Legend, Position, SemanticTokens } from './protocol';

/** A name with what the server says of it. */
export interface Token {
  readonly start: Position;
  readonly end: Position;
  readonly modifiers: readonly string[];
}

/** The tokens that the protocol's numbers stand for. */
export function tokensOf(data: readonly number[], { tokenModifiers }: Legend): Token[] {
  const found: Token[] = [];
  let [line, character] = [0, 0];
  for (let at = 0; at + 4 < data.length; at += 5) {
    const [lines, characters, length, , bits] = data.slice(at, at + 5);
    character = lines === 0 ? character + characters : characters;
    line += lines;
    const modifiers = tokenModifiers.filter((_, bit) => (bits >> bit) & 1);
    found.push({ start: { line, character }, end: { line, character: character + length }, modifiers });
  }
  return found;
}

export function colours(tools: Tools): { of(cell: SharedCell): Extension } {
  const { state, view: cm } = tools.cm;
  const { put, field } = decorationsOf<Token>(tools.cm, (found, doc) =>
    found
      .map(({ start, end, modifiers }) => mark(modifiers).range(offsetIn(doc, start), offsetIn(doc, end)))
      .filter(({ from, to }) => from < to),
  );

  /** The style sheet knows the modifiers that have a look. */
  function mark(modifiers: readonly string[]): Decoration {
    return cm.Decoration.mark({ class: ['nki-lab-token', ...modifiers.map(name => `nki-lab-is-${name}`)].join(' ') });
  }

  const plugin = (cell: SharedCell): Extension =>
    answers<SemanticTokens>(tools, cell, {
      method: 'textDocument/semanticTokens/full',
      params: () => ({}),
      isWanted: tools.hasColours,
      take: (view, found) => {
        const { legend } = tools.session;
        view.dispatch({ effects: put.of(found === null || legend === null ? [] : tokensOf(found.data, legend)) });
      },
    });

  // Inside the spans of the page's own colouring, whose colours would win otherwise.
  return { of: cell => [state.Prec.highest(field), plugin(cell)] };
}
