/** Python source in pieces that are coloured differently: keywords, texts, comments, numbers, called names. */

export type Kind = 'plain' | 'keyword' | 'text' | 'comment' | 'number' | 'call';

export interface Piece {
  readonly kind: Kind;
  readonly text: string;
}

const KEYWORDS = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global ' +
    'if import in is lambda match nonlocal not or pass raise return try while with yield'
  ).split(' '),
);

const TOKEN =
  /(#.*)|([rRbBuUfF]{0,2}(?:"""|'''))|([rRbBuUfF]{0,2}"(?:\\.|[^"\\])*"?|[rRbBuUfF]{0,2}'(?:\\.|[^'\\])*'?)|((?:0[xXoObB][\da-fA-F_]+|\d[\d_]*\.?[\d_]*(?:[eE][+-]?\d+)?|\.\d[\d_]*)[jJ]?)|([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)|([^\w#"'.\u0080-\uffff]+|.)/gy;

/** The lines of a text, each in pieces. */
export function highlight(text: string): readonly (readonly Piece[])[] {
  let open = '';
  return text.split(/\r\n|\r|\n/).map(line => {
    const pieces: Piece[] = [];
    let from = 0;
    if (open) {
      const end = line.indexOf(open);
      from = end < 0 ? line.length : end + open.length;
      if (end >= 0) open = '';
      add(pieces, 'text', line.slice(0, from));
    }
    open = scan(line, from, pieces) || open;
    return pieces;
  });
}

/** The pieces of a line from a place on; what closes the text that is left open at its end, or ''. */
function scan(line: string, from: number, pieces: Piece[]): string {
  TOKEN.lastIndex = from;
  for (let found = TOKEN.exec(line); found; found = TOKEN.exec(line)) {
    const [all, comment, triple, quoted, number, name] = found as unknown as (string | undefined)[];
    const token = all ?? '';
    if (comment !== undefined) add(pieces, 'comment', token);
    else if (triple !== undefined) {
      const quotes = triple.slice(-3);
      const end = line.indexOf(quotes, TOKEN.lastIndex);
      if (end < 0) {
        add(pieces, 'text', line.slice(found.index));
        return quotes;
      }
      add(pieces, 'text', line.slice(found.index, end + 3));
      TOKEN.lastIndex = end + 3;
    } else if (quoted !== undefined) add(pieces, 'text', token);
    else if (number !== undefined) add(pieces, 'number', token);
    else if (name !== undefined) add(pieces, kindOfName(token, line, TOKEN.lastIndex), token);
    else add(pieces, 'plain', token);
    if (TOKEN.lastIndex >= line.length) break;
  }
  return '';
}

function kindOfName(name: string, line: string, end: number): Kind {
  if (KEYWORDS.has(name)) return 'keyword';
  return /^\s*\(/.test(line.slice(end, end + 8)) ? 'call' : 'plain';
}

function add(pieces: Piece[], kind: Kind, text: string): void {
  if (!text) return;
  const last = pieces.at(-1);
  if (last?.kind === kind) pieces[pieces.length - 1] = { kind, text: last.text + text };
  else pieces.push({ kind, text });
}

/** The same pieces, cut where a marked range begins and ends; `marked` says which are inside. */
export function cut(
  pieces: readonly Piece[],
  begin: number,
  end: number,
): readonly (Piece & { readonly marked: boolean })[] {
  const out: (Piece & { marked: boolean })[] = [];
  let at = 0;
  for (const { kind, text } of pieces) {
    const from = Math.min(Math.max(begin - at, 0), text.length);
    const to = Math.min(Math.max(end - at, from), text.length);
    const parts: readonly [string, boolean][] = [
      [text.slice(0, from), false],
      [text.slice(from, to), true],
      [text.slice(to), false],
    ];
    for (const [part, marked] of parts) if (part) out.push({ kind, text: part, marked });
    at += text.length;
  }
  return out;
}
