import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { following } from '../src/following';
import type { Changes, State, View } from '../src/types';

function recorder(): { view: View; told: [number, string[]][] } {
  const told: [number, string[]][] = [];
  const view: View = {
    element: document.createElement('div'),
    draw: (state: State, changes: Changes) => told.push([state.step, [...changes].sort()]),
    dispose: () => undefined,
  };
  return { view, told };
}

const at = (step: number): State => ({ step }) as State;

describe('views that follow by a frame', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  it('draw a move of the cursor in the next frame, several at once', () => {
    const { view, told } = recorder();
    const late = following([view]);
    late.draw(at(1), new Set(['step', 'time']));
    late.draw(at(2), new Set(['step', 'selected']));
    expect(told).toEqual([]);
    vi.advanceTimersByTime(20);
    expect(told).toEqual([[2, ['selected', 'step', 'time']]]);
  });

  it('draw anything else at once, together with what was still to come', () => {
    const { view, told } = recorder();
    const late = following([view]);
    late.draw(at(1), new Set(['step']));
    late.draw(at(1), new Set(['theme']));
    expect(told).toEqual([[1, ['step', 'theme']]]);
    vi.advanceTimersByTime(20);
    expect(told).toHaveLength(1);
  });

  it('draw no more once they are gone', () => {
    const { view, told } = recorder();
    const late = following([view]);
    late.draw(at(1), new Set(['step']));
    late.dispose();
    vi.advanceTimersByTime(20);
    expect(told).toEqual([]);
  });
});
