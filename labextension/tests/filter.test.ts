import { describe, expect, it } from 'vitest';

import { parseFilter } from '../src/filter';
import { shellRun } from './shell_runs';

const run = shellRun();

function found(text: string): number[] {
  const { accepts, problem } = parseFilter(run, text);
  expect(problem).toBe('');
  return [0, 1, 2, 3, 4].filter(step => accepts?.(step) ?? true);
}

describe('the filter', () => {
  it.each([
    ['', [0, 1, 2, 3, 4]],
    ['engine:tensor', [1, 3]],
    ['engine:DMA', [0, 2]],
    ['critical', [1, 3]],
    ['waited>100ns', [1]],
    ['waited>0.05us engine:tensor', [1, 3]],
    ['runs<150', [0, 2]],
    ['start>0.5µs', [4]],
    ['line:4', [1, 3, 4]],
    ['op:matmul', [0, 1, 2, 3, 4]],
    ['tile:out', [1, 3]],
    ['vector', [4]],
    ['for:dma', [1, 3]],
    ['nothing_like_it', []],
  ])('%j accepts %j', (text, steps) => {
    expect(found(text)).toEqual(steps);
  });

  it.each(['waited>soon', 'line:0', 'line:x'])('says what is wrong with %j', text => {
    const { problem, accepts } = parseFilter(run, text);
    expect(problem).not.toBe('');
    expect(accepts).toBeNull();
  });
});
