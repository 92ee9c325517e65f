// @vitest-environment node
import { describe, expect, test, vi } from 'vitest';

import { extractor, plugin } from '../src/plugin';

describe('the extractor', () => {
  test.each([
    ['%%nki\nx = 1', 'code', true],
    ['%%nki --target trn2\nx = 1', 'code', true],
    ['%%nkix\nx = 1', 'code', false],
    [' %%nki\nx = 1', 'code', false],
    ['x = 1', 'code', false],
    ['%%nki\nx = 1', 'markdown', false],
  ])('takes %j in a %s cell: %s', (code, cell, taken) => {
    expect(extractor.hasForeignCode(code, cell)).toBe(taken);
  });

  test.each([
    ['%%nki\nx = 1\n  y = é🜂', 'x = 1\n  y = é🜂', { line: 2, column: 9 }],
    ['%%nki --strict\n', '', { line: 1, column: 0 }],
    ['%%nki', '', { line: 1, column: 0 }],
  ])('gives what is below the magic line of %j', (code, body, end) => {
    expect(extractor.extractForeignCode(code)).toEqual([
      { hostCode: '', foreignCode: body, range: { start: { line: 1, column: 0 }, end }, virtualShift: null },
    ]);
  });
});

test('the plugin registers it where the page has language servers', () => {
  const token = {};
  const register = vi.fn();
  const made = plugin(token) as { optional: unknown[]; activate(app: unknown, extractors: unknown): void };
  made.activate({}, { register });
  made.activate({}, null);
  expect(made.optional).toEqual([token]);
  expect(register).toHaveBeenCalledExactlyOnceWith(extractor, 'python');
  expect((plugin(undefined) as { optional: unknown[] }).optional).toEqual([]);
});
