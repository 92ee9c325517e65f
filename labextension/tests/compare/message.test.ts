import { expect, test } from 'vitest';

import { lineName, readComparison } from '../../src/views/compare/message';
import { WireError } from '../../src/wire';
import { message } from '../messages';

const LINE = { file: 'k.py', line: 4, text: 'a', other_file: 'k.py', other_line: 5, other_text: 'b', state: 'changed' };
const GONE = { ...LINE, other_file: '', other_line: 0 };
const NOWHERE = { ...GONE, file: '', line: 0 };

const TIMES = { begin: [0, 5, 0], end: [5, 9, 4], other_begin: [0, 4, 0], other_end: [4, 9, 4] };

function told(): ArrayBuffer {
  return message({
    header: { loops: ['i', 'j'], lines: [LINE, GONE, NOWHERE] },
    tables: {
      partners: { after: [1, -1, 0] },
      iterations: { level: [0, 0, 1], loop: [0, 0, 1], value: [0, 1, 7], ...TIMES },
      stretches: { line: [0, 1, 2], ...TIMES },
    },
    deltas: ['partners.after'],
  });
}

const STEPS = { before: 3, after: 4 };

test('partners are known from both sides, and what has none is listed', () => {
  const found = readComparison(told(), STEPS);
  expect([0, 1, 2, 3].map(step => found.partner('before', step))).toEqual([1, -1, 0, -1]);
  expect([0, 1, 2, 3].map(step => found.partner('after', step))).toEqual([2, 0, -1, -1]);
  expect([[...found.alone.before], [...found.alone.after]]).toEqual([[1], [2, 3]]);
});

test('iterations come by loop, with their names', () => {
  const { iterations } = readComparison(told(), STEPS);
  expect(iterations.map(({ count }) => count)).toEqual([2, 1]);
  expect([iterations[0].name(1), iterations[1].name(0)]).toEqual(['i = 1', 'j = 7']);
  expect([...iterations[0].begin.after]).toEqual([0, 4]);
});

test('lines have the number of the later run where they are in it', () => {
  const { header, lines } = readComparison(told(), STEPS);
  expect([0, 1, 2].map(place => lines.name(place))).toEqual(['line 5', 'line 4', 'no line']);
  expect(lineName(header, 9)).toBe('no line');
});

test('a message without its tables is refused', () => {
  expect(() => readComparison(message({ header: { lines: [] }, tables: {} }), STEPS)).toThrow(WireError);
});
