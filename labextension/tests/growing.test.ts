import { describe, expect, test, vi } from 'vitest';

import { createGrowing, growthOf, outline } from '../src/growing';
import type { Curves, Growth } from '../src/growing';
import { mount } from '../src/visualizer';
import { shellRun } from './shell_runs';
import { fakeScreen } from './timeline/screen';

const textOf = (element: Element): string => (element.textContent ?? '').replace(/\s+/g, ' ').trim();

const LANES: Curves = {
  over: 'program',
  names: ['tensor', 'dma'],
  until: 148_000,
  end: 262_144,
  count: 2,
  shares: new DataView(new Uint8Array([9, 51, 51, 204, 102]).buffer, 1), // as a widget gets them: a part of a message
};
const MEMORIES: Curves = { ...LANES, names: ['sbuf'], until: 30_000, shares: new Uint8Array([13, 128]) };
const GROWTH: Growth = { lanes: LANES, memories: MEMORIES };

describe('a run that grows', () => {
  test('says what it is, and the figures of its lanes and memories so far', () => {
    const growing = createGrowing();
    growing.draw(GROWTH);
    const [lanes, memories] = [...growing.element.querySelectorAll('section')].map(textOf);
    expect(lanes).toContain('program order so far, 148 k instructions');
    expect(lanes).toContain('Tensor20 %DMA60 %');
    expect(memories).toContain('program order so far, 30 k instructions');
    expect(memories).toContain('SBUFup to 50 %');
  });

  test('turns to time where times are known, and keeps the rows that stay', () => {
    const growing = createGrowing();
    growing.draw(GROWTH);
    const rows = [...growing.element.querySelectorAll('[role=listitem]')];
    const timed: Curves = { ...LANES, over: 'time', until: 1_200_000_000, end: 2 ** 31 };
    growing.draw({ lanes: timed, memories: null });
    expect(textOf(growing.element)).toContain('timed until 1.20 ms');
    expect(textOf(growing.element)).toContain('of DMA the mean of its queues');
    expect([...growing.element.querySelectorAll('[role=listitem]')].slice(0, 2)).toEqual(rows.slice(0, 2));
    expect(growing.element.querySelectorAll('section')[1]?.hidden).toBe(true);
  });

  test('draws as far as it is known', () => {
    const growing = createGrowing();
    growing.draw({ ...GROWTH, lanes: { ...LANES, until: 131_072 } });
    expect(growing.element.querySelector('.nki-growing-known')?.getAttribute('width')).toBe('127.5');
    expect(growing.element.querySelector('path')?.getAttribute('d')).toMatch(/H127\.5V255Z$/);
  });

  test('is nothing before the kernel says something', () => {
    expect(growthOf({})).toBeNull();
    expect(growthOf(undefined)).toBeNull();
  });
});

describe('an outline', () => {
  test('has a stretch for equal neighbours', () => {
    expect(outline(new Uint8Array([255, 255, 0]), 255)).toBe('M0 255V0H170V255H255V255Z');
  });

  test('of nothing is flat', () => {
    expect(outline(new Uint8Array(), 0)).toBe('M0 255V255Z');
  });
});

describe('a visualizer without a run', () => {
  test('shows what grows, and the run in its place', () => {
    fakeScreen(1200);
    const root = document.createElement('div');
    document.body.append(root);
    const visualizer = mount(root, null);
    const growing = createGrowing();
    growing.draw(GROWTH);
    visualizer.setGrowing(growing.element);
    visualizer.setProgress(10, 100);
    expect(root.querySelector('.nki-growing')).not.toBeNull();
    expect(root.querySelector('.nki-skeleton')).toBeNull();
    visualizer.setRun(shellRun());
    expect(root.querySelector('.nki-growing')).toBeNull();
    visualizer.dispose();
    root.remove();
    vi.unstubAllGlobals();
  });
});
