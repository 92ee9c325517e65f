import { describe, expect, it } from 'vitest';

import { cut, highlight } from '../src/python';

const kinds = (line: string): string[][] => highlight(line)[0].map(({ kind, text }) => [kind, text]);

describe('highlight', () => {
  it('knows keywords, calls, numbers, texts and comments', () => {
    expect(kinds("for j in nl.affine_range(4):  # a 'pass'")).toEqual([
      ['keyword', 'for'],
      ['plain', ' j '],
      ['keyword', 'in'],
      ['plain', ' nl.'],
      ['call', 'affine_range'],
      ['plain', '('],
      ['number', '4'],
      ['plain', '):  '],
      ['comment', "# a 'pass'"],
    ]);
    expect(kinds('x = f"a{b}" + 0x1F')).toEqual([
      ['plain', 'x = '],
      ['text', 'f"a{b}"'],
      ['plain', ' + '],
      ['number', '0x1F'],
    ]);
  });

  it('goes on with a text over lines', () => {
    const lines = highlight('"""One\ntwo # three\n""" # end\nx');
    expect(lines.map(line => line.map(piece => piece.kind))).toEqual([
      ['text'],
      ['text'],
      ['text', 'plain', 'comment'],
      ['plain'],
    ]);
  });

  it.each(['größe_ß = "🜂"', "'unclosed", '"\\"', '...', '\t@nki.jit', '1e-3j', 'a"""b', '\u{1F702}', ''])(
    'keeps every letter of %j',
    line => {
      expect(
        highlight(line)[0]
          .map(piece => piece.text)
          .join(''),
      ).toBe(line);
    },
  );

  it('reads 5,000 lines in one go', () => {
    const text = Array.from(
      { length: 5000 },
      (_, line) => `    nisa.nc_matmul(dst=acc, moving=x[${line}])  # "${line}"`,
    );
    expect(highlight(text.join('\n'))).toHaveLength(5000);
  });
});

describe('cut', () => {
  it('marks a range across pieces', () => {
    const [pieces] = highlight('for x in y');
    expect(cut(pieces, 2, 5).map(({ text, marked }) => (marked ? text.toUpperCase() : text))).toEqual([
      'fo',
      'R',
      ' X',
      ' ',
      'in',
      ' y',
    ]);
  });
});
