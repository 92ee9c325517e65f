import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { layoutOf } from '../src/explore';
import type { Run } from '../src/types';
import type { Visualizer } from '../src/visualizer';
import { timesText } from '../src/views/summary';
import { mount } from '../src/visualizer';
import { shellRun } from './shell_runs';
import { fakeScreen } from './timeline/screen';

let root: HTMLElement;
let made: Visualizer[];

beforeEach(() => {
  vi.useFakeTimers();
  fakeScreen(1200);
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(400);
  made = [];
  root = document.createElement('div');
  document.body.append(root);
});
afterEach(() => {
  for (const visualizer of made) visualizer.dispose();
  document.body.replaceChildren();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function show(run: Run | null): Visualizer {
  const visualizer = mount(root, run);
  made.push(visualizer);
  frame();
  return visualizer;
}

function frame(): void {
  vi.advanceTimersByTime(60);
}

function text(selector: string): string {
  return [...root.querySelectorAll(selector)]
    .map(element => element.textContent)
    .join('|')
    .replaceAll(/\s/g, ' ');
}

function press(key: string): void {
  const target = root.contains(document.activeElement) ? document.activeElement : root.querySelector('.nki-visualizer');
  target?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  frame();
}

function choose(label: string): void {
  root.querySelector<HTMLElement>(`[role=tab][data-label=${label}]`)?.click();
  frame();
}

describe('the header', () => {
  it('says how long, how sure, what holds it back', () => {
    show(shellRun());
    expect(text('.nki-kernel')).toBe('kernel');
    expect(text('.nki-figure')).toBe('1.00 µs');
    expect(text('.nki-sure-text')).toBe('sources of costs: 58 % documented · 33 measured · 9.0 inferred');
    expect(text('.nki-sentence')).toBe('DMA is on the critical path 48 % of the time. Tensor waits for k.');
    expect(text('.nki-numbers')).toBe('MFU7.2 %Moved4.13 MiBSBUF peak4.5 of 192 KiBPSUM peak0 of 16 KiB');
  });

  it('says the interval behind the time, and what it is', () => {
    const interval = { makespan_interval_ns: [843, 1_221], makespan_interval_basis: '<b>56</b> published times' };
    show(shellRun({ header: { summary: { ...interval, confidence: { guess: 0.9, documented: 0.1 } } } }));
    expect(text('.nki-figure')).toBe('1.00 µs, 0.843 to 1.22');
    expect(root.querySelector<HTMLElement>('.nki-within')?.title).toContain('80 % interval: <b>56</b> published times');
    expect(root.querySelector<HTMLElement>('.nki-sure-text')?.title).toContain('sources of costs: 10 % documented');
  });

  it('counts the instructions that are executed, and all steps', () => {
    show(shellRun({ header: { instructions: 4 } }));
    expect(text('.nki-meta')).toContain('4 instructions');
    expect(text('.nki-where')).toContain('of 5');
  });

  it('shows what users wrote as text', () => {
    show(shellRun({ header: { kernel: '<img src=x onerror=alert(1)>' } }));
    expect(text('.nki-kernel')).toBe('<img src=x onerror=alert(1)>');
    expect(text('.nki-chip')).toBe('NKI705k[i] arrives <b>late</b>');
    expect(root.querySelector('img, .nki-chip b b, script')).toBeNull();
  });

  it('leads from a finding to its line', () => {
    const { store } = show(shellRun());
    root.querySelector<HTMLElement>('.nki-chip')?.click();
    frame();
    expect(store?.state).toMatchObject({ line: { source: 0, line: 4 }, step: 1 });
    expect(text('.nki-line[aria-selected=true] .nki-line-text')).toBe('        matmul(k[i])');
    expect(text('.nki-code-lines .nki-squiggle')).toBe('matmul');
  });
});

describe('one selection', () => {
  it('drives all views', () => {
    const { store } = show(shellRun());
    store?.select(3);
    frame();
    expect(text('.nki-where')).toBe('Step 4 of 5 · 400 ns');
    expect(text('.nki-line[aria-selected=true] .nki-line-number')).toBe('4');
    // What is out of sight is drawn when it comes into it.
    expect(text('.nki-facts-list')).not.toContain('Waited 60 ns');
    store?.set({ panel: 'details' });
    frame();
    expect(text('.nki-details h3')).toBe('nc_matmul');
    expect(text('.nki-facts-list')).toContain(
      'Waited 60 ns for k from DMA, then  20 ns for loads of activation tables',
    );
    expect(text('.nki-facts-list')).toContain('Sourceline 4 · i = 1, j = 7');
    expect(text('.nki-loop-name')).toBe('i = 1|j = 7');
    expect(root.querySelector('.nki-pips')?.getAttribute('aria-valuetext')).toBe('i = 1, second of 2');
    choose('Instructions');
    expect(text('.nki-row[aria-selected]')).toContain('out ← k');
  });

  it('says what every engine does', () => {
    const { store } = show(shellRun());
    store?.goTo(130_000);
    frame();
    const rows = [...root.querySelectorAll('.nki-engine')].map(row => row.textContent.replaceAll(/\s/g, ' '));
    expect(rows).toEqual([
      'Tensornc_matmul190 ns leftout[0, 0]',
      'Vectornothing queuednc_matmul',
      'DMAnothing queuedk',
    ]);
  });

  it('goes where keys say', () => {
    const { store } = show(shellRun());
    root.querySelector<HTMLElement>('.nki-visualizer')?.focus();
    press('ArrowRight');
    expect(store?.state).toMatchObject({ step: 1, selected: 1 });
    press('End');
    expect(store?.state.step).toBe(4);
    press('p');
    expect(store?.state.step).toBe(3);
    press('2');
    expect(store?.state.tab).toBe('summary');
    expect(text('.nki-part h3')).toContain('Where the time goes');
    press('Escape');
    expect(store?.state.selected).toBe(-1);
  });

  it('moves to another iteration with a loop slider', () => {
    const { store } = show(shellRun());
    const pips = root.querySelector('.nki-pips');
    pips?.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }));
    expect(store?.state.step).toBe(2);
  });
});

describe('playing', () => {
  it('glides to the end and stops', () => {
    const { store } = show(shellRun());
    store?.set({ speed: 1_000_000 });
    press(' ');
    expect(store?.state.playing).toBe(true);
    vi.advanceTimersByTime(500);
    const { time } = store?.state ?? { time: 0 };
    expect(time).toBeGreaterThan(300_000);
    expect(time).toBeLessThan(700_000);
    vi.advanceTimersByTime(1000);
    expect(store?.state).toMatchObject({ playing: false, time: 1_000_000, step: 4 });
  });

  it('stops at a breakpoint', () => {
    const { store } = show(shellRun());
    store?.set({ speed: 1_000_000, breakpoints: new Set(['0:4']) });
    press(' ');
    vi.advanceTimersByTime(2000);
    expect(store?.state).toMatchObject({ playing: false, step: 1, time: 120_000 });
  });

  it('stops at the next write to a tile, and at none when it plays on without one', () => {
    const { store } = show(shellRun());
    store?.set({ speed: 1_000_000, stopTile: 0 });
    press(' ');
    vi.advanceTimersByTime(2000);
    expect(store?.state).toMatchObject({ playing: false, step: 2, time: 150_000 });
    press(' ');
    vi.advanceTimersByTime(2000);
    expect(store?.state).toMatchObject({ playing: false, step: 4 });
  });

  it('goes step by step where less motion is wanted', () => {
    vi.spyOn(window, 'matchMedia').mockReturnValue({
      matches: true,
      addEventListener: vi.fn(),
      removeEventListener: vi.fn(),
    } as never);
    const { store } = show(shellRun());
    press(' ');
    vi.advanceTimersByTime(600);
    expect(store?.state.step).toBe(2);
  });
});

describe('search', () => {
  it('stays in the timeline, and is the same in the table', () => {
    const { store } = show(shellRun());
    press('/');
    const input = root.querySelector<HTMLInputElement>('.nki-tl-query')!;
    expect([store?.state.tab, document.activeElement]).toEqual(['explore', input]);
    input.value = 'engine:tensor';
    input.dispatchEvent(new Event('input'));
    frame();
    frame();
    expect(text('.nki-tl-found')).toBe('2 of 5');
    press('Enter');
    expect(store?.state.selected).toBe(1);
    choose('Instructions');
    expect(root.querySelector<HTMLInputElement>('.nki-table-bar .nki-filter')?.value).toBe('engine:tensor');
    expect(text('.nki-table-foot')).toBe('1–2 of 2');
    choose('Explore');
    input.focus();
    press('Escape');
    expect([input.value, store?.state.found, store?.state.searching]).toEqual(['', null, true]);
    press('Escape');
    expect(root.querySelector<HTMLElement>('.nki-tl-search')?.hidden).toBe(true);
  });
});

describe('paper', () => {
  it('has its own width, for which everything is drawn before it is printed', () => {
    show(shellRun());
    window.dispatchEvent(new Event('beforeprint'));
    expect(root.dataset.nkiPrint).toBe('');
    window.dispatchEvent(new Event('afterprint'));
    expect(root.dataset.nkiPrint).toBeUndefined();
  });
});

describe('the table', () => {
  it('filters and sorts', () => {
    show(shellRun());
    choose('Instructions');
    const rows = (): string[] =>
      [...root.querySelectorAll('.nki-virtual-rows > .nki-row .nki-c-step')].map(cell => cell.textContent);
    expect(rows()).toEqual(['1', '2', '3', '4', '5']);
    root.querySelector<HTMLElement>('.nki-c-runs .nki-sort')?.click();
    expect(rows()).toEqual(['5', '2', '4', '1', '3']);
    const filter = root.querySelector<HTMLInputElement>('.nki-filter');
    if (filter) filter.value = 'engine:tensor';
    filter?.dispatchEvent(new Event('input'));
    frame();
    frame();
    expect(rows()).toEqual(['2', '4']);
    expect(text('.nki-table-foot')).toBe('1–2 of 2');
  });
});

describe('the summary', () => {
  it('tells of every engine and of the critical path, which is the whole', () => {
    show(shellRun());
    choose('Summary');
    const rows = [...root.querySelectorAll('.nki-bar-row')].map(row => row.getAttribute('aria-label'));
    expect(rows).toEqual(['Tensor: overlapped 40 %', 'Vector: overlapped 30 %', 'DMA: overlapped 20 %']);
    expect(text('.nki-path-list li')).toBe(
      'DMA works480 ns48 %|Tensor works400 ns40 %|waits for the kernel to be launched and ended120 ns12 %',
    );
    expect(text('.nki-memory-peak')).toContain('4.5 of 192 KiB');
    expect(text('.nki-finding')).toContain('k[i] arrives <b>late</b>');
    expect(text('.nki-costly')).toContain('matmul(k[i])');
  });

  it('can be copied in full precision', () => {
    expect(timesText(shellRun()).split('\n')).toEqual([
      'lane\trows\tbusy_ps\tslowed_ps\tcritical_ps\twaiting_ps\tempty_ps',
      'Tensor\t2\t400000\t0\t0\t0\t0',
      'Vector\t1\t300000\t0\t0\t0\t0',
      'DMA q0\t2\t200000\t0\t0\t0\t0',
      '',
      'critical path\tps',
      'DMA works\t480000',
      'Tensor works\t400000',
      'waits for the kernel to be launched and ended\t120000',
      '',
    ]);
  });
});

describe('states', () => {
  it('shows a skeleton only after a while, with what was read', () => {
    const visualizer = show(null);
    expect(root.querySelector('.nki-skeleton')).toBeNull();
    vi.advanceTimersByTime(200);
    visualizer.setProgress(18 * 1024 ** 2, 61 * 1024 ** 2);
    expect(text('.nki-skeleton-text')).toBe('Opening recording, 18 of 61 MiB');
    visualizer.setRun(shellRun());
    expect(root.querySelector('.nki-skeleton')).toBeNull();
  });

  it('puts the fault first', () => {
    const fault = { code: 'NKI303', outcome: 'fault', severity: 'error', message: 'out of bounds', file: 'kernel.py', line: 4, column: 8, end_line: 4, end_column: 14, help: '' }; // prettier-ignore
    const { store } = show(shellRun({ header: { fault: 3, findings: [fault] } }));
    expect(text('.nki-banner')).toContain('out of bounds');
    expect(text('.nki-banner p')).toBe('Line 4, i = 1, j = 7 NKI303');
    expect(text('.nki-meta')).toContain('stopped at step 4 of 5');
    const before = [...root.querySelectorAll<HTMLElement>('.nki-banner button')].find(
      item => item.textContent === 'Step before',
    );
    before?.click();
    expect(store?.state.step).toBe(2);
  });

  it('says that a fault came after the last instruction', () => {
    const fault = { code: 'NKI303', outcome: 'fault', severity: 'error', message: 'out of bounds', file: 'kernel.py', line: 2, column: 8, end_line: 2, end_column: 14, help: '' }; // prettier-ignore
    show(shellRun({ header: { fault: 3, fault_after: true, findings: [fault] } }));
    expect(text('.nki-banner p')).toBe('Line 2, after step 4, the last instruction issued NKI303');
    expect(text('.nki-meta')).toContain('stopped after step 4');
    expect([...root.querySelectorAll('.nki-banner button')].map(item => item.textContent)).toEqual([
      'Line 2',
      'Show last instruction',
    ]);
    expect(root.textContent).not.toContain('failed here');
  });

  it('says so where there is nothing to show', () => {
    show(shellRun({ rows: [], header: { makespan: 0, lines: [] } }));
    expect(text('.nki-notice h3')).toBe('No instructions');
    expect(root.querySelector('.nki-explore')).toBeNull();
  });

  it('says that one instruction overlaps nothing', () => {
    show(shellRun({ rows: [{ lane: 0, start: 0, duration: 213_000, site: 0 }] }));
    expect(text('.nki-notice')).toContain('One instruction');
    expect(root.querySelector('.nki-explore')).not.toBeNull();
  });

  it('shows errors and notices with their texts', () => {
    const visualizer = show(shellRun());
    visualizer.setNotice('Kernel restarted', 'Stepping and search still work.');
    expect(text('.nki-note')).toContain('Kernel restarted');
    expect(root.querySelector('.nki-transport')).not.toBeNull();
    visualizer.setError('Part of the recording is unreadable', 'rows: checksum');
    expect(text('.nki-notice-error')).toContain('unreadable');
    expect(visualizer.store).toBeNull();
  });

  it('keeps its state when more rows come, and leaves nothing behind', () => {
    const run = shellRun();
    const visualizer = show(run);
    visualizer.store?.select(2);
    visualizer.setRun(run);
    frame();
    expect(visualizer.store?.state.step).toBe(2);
    visualizer.dispose();
    expect(root.children).toHaveLength(0);
  });
});

describe('the layout', () => {
  it.each([
    [720, 'narrow'],
    [760, 'medium'],
    [999, 'medium'],
    [1000, 'wide'],
    [1799, 'wide'],
    [1800, 'widest'],
  ] as const)('at %d px is %s', (width, layout) => {
    expect(layoutOf(width)).toBe(layout);
  });

  it('has one panel and the line of the cursor where it is narrow', () => {
    vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(720);
    const { store } = show(shellRun());
    const hidden = (name: string): boolean => root.querySelector<HTMLElement>(`.nki-slot-${name}`)?.hidden !== false;
    expect(['memory', 'details', 'source', 'pinned'].map(hidden)).toEqual([false, true, true, false]);
    expect(text('.nki-pinned .nki-line-number')).toBe('2|3|4');
    store?.set({ panel: 'source' });
    frame();
    expect(['memory', 'details', 'source', 'pinned'].map(hidden)).toEqual([true, true, false, true]);
  });
});

describe('accessibility', () => {
  it('names every region, tab and control', () => {
    show(shellRun());
    for (const region of root.querySelectorAll(
      '[role=region], [role=toolbar], [role=tablist], [role=grid], [role=slider]',
    )) {
      expect(region.getAttribute('aria-label') ?? region.getAttribute('aria-labelledby')).toBeTruthy();
    }
    for (const button of root.querySelectorAll('button:not([hidden])')) {
      expect(button.getAttribute('aria-label') ?? button.textContent.trim()).toBeTruthy();
    }
    for (const tab of root.querySelectorAll('[role=tab]')) {
      expect(document.getElementById(tab.getAttribute('aria-controls') ?? '')).not.toBeNull();
    }
  });

  it('has one stop of the Tab key in the toolbar', () => {
    show(shellRun());
    const stops = [...root.querySelectorAll<HTMLElement>('.nki-transport :is(button, input, select, [role=slider])')];
    expect(stops.filter(item => item.tabIndex === 0)).toHaveLength(1);
  });

  it('speaks steps, at most one a second', () => {
    show(shellRun());
    root.querySelector<HTMLElement>('.nki-visualizer')?.focus();
    press('ArrowRight');
    expect(text('.nki-live')).toContain('nc_matmul, Tensor, 200 ns at 120 ns');
    press('ArrowRight');
    press('ArrowRight');
    expect(text('.nki-live')).toContain('at 120 ns');
    vi.advanceTimersByTime(1100);
    expect(text('.nki-live')).toContain('at 400 ns');
  });
});
