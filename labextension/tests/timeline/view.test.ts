import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { onAsked } from '../../src/commands';
import type { Command, Commands } from '../../src/commands';
import { createStore } from '../../src/store';
import type { Context, Run, State, View } from '../../src/types';
import { createTimeline } from '../../src/views/timeline';
import type { RowGiven } from '../messages';
import { QUEUE, runOf, TENSOR, VECTOR } from './runs';
import { fakePalette, fakeScreen, type Sheet } from './screen';

const ROWS: readonly RowGiven[] = [
  { lane: QUEUE, start: 0, duration: 300_000, critical: 1, accesses: [[0, 1]] },
  { lane: TENSOR, start: 320_000, duration: 200_000, wait: 320_000, stall: 1, after: 0, critical: 1, accesses: [[1, 1], [0, 0]], edges: [[0, 0]], site: 0 }, // prettier-ignore
  { lane: VECTOR, start: 540_000, duration: 200_000, wait: 540_000, stall: 1, after: 1, edges: [[1, 0]] },
];

interface Page {
  readonly view: View;
  readonly store: ReturnType<typeof createStore>;
  readonly element: HTMLElement;
  /** Bring the page up to the store's state. */
  readonly draw: (...changes: (keyof State)[]) => void;
}

let sheets: readonly Sheet[];
let pages: Page[];

beforeEach(() => {
  document.body.replaceChildren();
  sheets = fakeScreen(1000);
  pages = [];
});
afterEach(() => {
  for (const page of pages) page.view.dispose();
  vi.unstubAllGlobals();
});

function open(run: Run): Page {
  const store = createStore(run);
  const context: Context = { run, store, palette: fakePalette, speak: () => undefined };
  const view = createTimeline(context);
  document.body.append(view.element);
  const page = {
    view,
    store,
    element: view.element,
    draw: (...changes: (keyof State)[]) => view.draw(store.state, new Set(changes)),
  };
  pages.push(page);
  page.draw();
  return page;
}

const texts = (element: HTMLElement, selector: string): string[] =>
  [...element.querySelectorAll(selector)].map(found => found.textContent);

const wrote = (text: string): boolean => sheets.some(sheet => sheet.texts.includes(text));

describe('the timeline', () => {
  test('names its rows and their share of the window', () => {
    const { element, store, draw } = open(runOf(ROWS));
    expect(texts(element, '.nki-tl-gutter .nki-tl-name')).toEqual(['', 'Critical path', 'Tensor', 'Vector', 'DMA']);
    expect(texts(element, '.nki-tl-gutter .nki-tl-share')).toEqual(['ns', '', '27 %', '27 %', '41 %']);
    store.show({ from: 320_000, to: 720_000 });
    draw('window');
    expect(texts(element, '.nki-tl-gutter .nki-tl-share')).toEqual(['ns', '', '50 %', '45 %', '0 %']);
  });

  test('tells shares of lanes too crowded for bars, and how many instructions those have', () => {
    const crowd = Array.from({ length: 4000 }, (_, at) => ({ start: 1000 * at, duration: 250 }));
    const { element } = open(runOf(crowd));
    const share = [...element.querySelectorAll('.nki-tl-gutter .nki-tl-cell-lane .nki-tl-share')][0];
    expect(share.textContent).toBe('25 %');
    expect(share.getAttribute('title')).toMatch(/^25 % busy in this window, 4.000 instructions/);
  });

  test('is a region that says what it shows', () => {
    const { element } = open(runOf(ROWS));
    expect(element.getAttribute('role')).toBe('region');
    expect(element.getAttribute('aria-label')).toBe('Timeline of kernel, 0 to 740 ns');
  });

  test('writes labels of bars and what waits are for', () => {
    open(runOf(ROWS));
    expect([wrote('k'), wrote('waits k')]).toEqual([true, true]);
  });

  test('moves the cursor without painting the lanes', () => {
    const { element, store, draw } = open(runOf(ROWS));
    const [lanes, over] = [...element.querySelectorAll('.nki-tl-plot canvas')].map(canvas =>
      sheets.find(sheet => sheet.canvas === canvas),
    );
    lanes!.calls.length = 0;
    store.set({ time: 100_000, step: 0 });
    draw('time', 'step');
    expect([lanes!.calls.length, over!.texts]).toEqual([0, ['100 ns']]);
    store.show({ from: 0, to: 400_000 });
    draw('window');
    expect(lanes!.calls.length).toBeGreaterThan(0);
  });

  test('tells the selected instruction in the list of its lane', () => {
    const { element, store, draw } = open(runOf(ROWS));
    store.select(1);
    draw('selected', 'step', 'time');
    const item = element.querySelector('[role="listitem"]');
    expect(item?.textContent).toBe('nc_matmul, Tensor, 200 ns at 320 ns, waited 320 ns for k from DMA, critical');
    expect(item?.parentElement?.getAttribute('aria-label')).toBe('Tensor, 27 % busy in this window, 1 instruction in all'); // prettier-ignore
    expect(element.querySelector('[tabindex="0"][aria-describedby]')?.getAttribute('aria-describedby')).toBe(item?.id);
  });

  test('has buttons for what its keys do', () => {
    const { element, store } = open(runOf(ROWS));
    const asked: Command[] = [];
    const commands = new Proxy({} as Commands, { get: (_, name) => () => asked.push(name as Command) });
    onAsked(document.body, commands);
    for (const button of element.querySelectorAll<HTMLElement>('.nki-tl-header .nki-tl-tool')) button.click();
    const jumps = ['previousStall', 'nextStall', 'previousCritical', 'nextCritical'];
    // Without findings there is nothing to go to.
    expect(asked.filter(command => !command.endsWith('Finding'))).toEqual([...jumps, 'critical', 'search', 'fit']);
    expect(element.querySelector<HTMLElement>('.nki-tl-jump[aria-label="Finding"]')?.hidden).toBe(true);
    element.querySelector<HTMLElement>('[data-colour="op"]')?.click();
    expect(store.state.colourBy).toBe('op');
  });

  test('has one stop of the Tab key for the colours, and arrows that choose', () => {
    const { element, store, draw } = open(runOf(ROWS));
    const radios = [...element.querySelectorAll<HTMLElement>('[role="radio"]')];
    const stops = (): number[] => radios.map(radio => radio.tabIndex);
    expect(stops()).toEqual([0, -1, -1, -1]);
    for (const radio of radios) vi.spyOn(radio, 'getClientRects').mockReturnValue([{}] as unknown as DOMRectList);
    radios[0].focus();
    const press = (key: string): boolean =>
      radios[0].parentElement!.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    press('ArrowRight');
    draw('colourBy');
    expect([store.state.colourBy, document.activeElement, stops()]).toEqual(['op', radios[1], [-1, 0, -1, -1]]);
    press('ArrowUp');
    press('ArrowUp');
    draw('colourBy');
    expect([store.state.colourBy, stops()]).toEqual(['tensor', [-1, -1, -1, 0]]);
  });

  test('marks what a search found and counts it', () => {
    const { element, store, draw } = open(runOf(ROWS));
    const bar = element.querySelector<HTMLElement>('.nki-tl-search')!;
    expect(bar.hidden).toBe(true);
    store.set({ query: 'k', found: { query: 'k', problem: '', progress: 1, steps: Uint32Array.of(0, 1) } });
    draw('query', 'found');
    expect([bar.hidden, bar.querySelector('.nki-tl-found')?.textContent]).toEqual([false, '2 of 3']);
    store.set({ found: { query: 'k', problem: '', progress: 0.5, steps: new Uint32Array(0) } });
    draw('found');
    expect(bar.querySelector('.nki-tl-found')?.textContent).toBe('Searching, 50 %');
    store.set({ found: { query: 'k', problem: '<b>no</b>', progress: 1, steps: new Uint32Array(0) } });
    draw('found');
    expect([bar.querySelector('.nki-tl-found')?.textContent, bar.querySelector('b')]).toEqual(['<b>no</b>', null]);
    expect(bar.querySelector('input')?.getAttribute('aria-invalid')).toBe('true');
  });

  test('says what the tints stand for', () => {
    const { element, store, draw } = open(runOf(ROWS));
    store.set({ colourBy: 'tensor' });
    draw('colourBy');
    expect(texts(element, '.nki-tl-item').slice(0, 3)).toEqual(['out', 'k', 'other']);
  });

  test('adds up a marked range, and forgets it on demand', () => {
    const { element, store, draw } = open(runOf(ROWS));
    store.set({ area: { from: 300_000, to: 700_000 } });
    draw('area');
    const facts = texts(element, '.nki-tl-fact');
    expect(facts.slice(0, 3)).toEqual(['400 ns', 'Steps 2', 'Busy Tensor 50 % · Vector 40 %']);
    element.querySelector<HTMLElement>('[aria-label="Clear the range"]')?.click();
    expect(store.state.area).toBeNull();
    store.set({ area: { from: 5000, to: 5000 } });
    draw('area');
    expect(texts(element, '.nki-tl-fact')[0]).toBe('Marker at 5 ns');
  });

  test('shows names with markup as they are', () => {
    const kernel = '<img src=x onerror=alert(1)>';
    const { element } = open(runOf(ROWS, { header: { kernel } }));
    expect(element.querySelector('img')).toBeNull();
    expect(texts(element, '.nki-tl-kernel')).toEqual([kernel]);
  });

  test('of no instruction says so', () => {
    const { element } = open(runOf([], { header: { makespan: 0 } }));
    expect(element.querySelector<HTMLElement>('.nki-tl-nothing')?.hidden).toBe(false);
  });

  test('marks where a run failed', () => {
    const { element } = open(runOf(ROWS, { header: { fault: 2 } }));
    expect(wrote('✕ failed')).toBe(true);
    expect(texts(element, '.nki-tl-item')[0]).toBe('failed here');
  });

  test('does not call the instruction before a fault the one that failed', () => {
    const { element } = open(runOf(ROWS, { header: { fault: 2, fault_after: true } }));
    expect(texts(element, '.nki-tl-item')[0]).toBe('last before the fault');
    expect(element.textContent).not.toContain('failed here');
  });

  test('takes more rows', () => {
    const { element, view } = open(runOf(ROWS.slice(0, 1)));
    view.reload?.(runOf(ROWS));
    expect(texts(element, '.nki-tl-gutter .nki-tl-name')).toContain('Vector');
    expect(texts(element, '.nki-tl-overview .nki-tl-note')).toEqual(['3 instr · 740 ns']);
  });
});

describe('the overview', () => {
  test('is a slider that says the window', () => {
    const { element, store, draw } = open(runOf(ROWS));
    store.show({ from: 100_000, to: 200_000 });
    draw('window');
    const slider = element.querySelector('[role="slider"]');
    expect(slider?.getAttribute('aria-valuetext')).toBe('100 to 200 ns');
    expect(slider?.getAttribute('aria-valuenow')).toBe('14');
  });

  test('is moved by arrow keys, which go no further', () => {
    const { element, store } = open(runOf(ROWS));
    store.show({ from: 100_000, to: 200_000 });
    const heard = vi.fn();
    element.addEventListener('keydown', heard);
    const press = new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true });
    element.querySelector('[role="slider"]')?.dispatchEvent(press);
    expect(store.state.window).toEqual({ from: 110_000, to: 210_000 });
    expect([heard.mock.calls.length, press.defaultPrevented]).toEqual([0, true]);
  });
});

describe('the pointer', () => {
  const send = (element: HTMLElement, type: string, x: number, y: number, more: object = {}): void => {
    const event = { bubbles: true, cancelable: true, clientX: x, clientY: y, pointerId: 1, ...more };
    const made = type === 'wheel' ? new WheelEvent(type, event) : new PointerEvent(type, event);
    // What the page's stand-in does not take from its arguments.
    for (const [name, value] of Object.entries(event)) Object.defineProperty(made, name, { value });
    element.dispatchEvent(made);
  };
  const plotOf = (page: Page): HTMLElement => {
    const plot = page.element.querySelector<HTMLElement>('.nki-tl-plot')!;
    plot.setPointerCapture = () => undefined;
    return plot;
  };
  const click = (plot: HTMLElement, x: number, y: number): void => {
    send(plot, 'pointerdown', x, y);
    send(plot, 'pointerup', x, y);
  };

  test('selects by a click, and clears by one beside', () => {
    const page = open(runOf(ROWS));
    const plot = plotOf(page);
    click(plot, 500, 50);
    expect(page.store.state).toMatchObject({ selected: 1, time: 320_000 });
    click(plot, 850, 50);
    expect(page.store.state.selected).toBe(-1);
  });

  test('marks a range that snaps to edges unless Alt is held', () => {
    const page = open(runOf(ROWS));
    const plot = plotOf(page);
    send(plot, 'pointerdown', 434, 50);
    send(plot, 'pointermove', 705, 50, { buttons: 1 });
    send(plot, 'pointerup', 705, 50);
    expect(page.store.state.area).toEqual({ from: 320_000, to: 520_000 });
    send(plot, 'pointerdown', 100, 50, { altKey: true });
    send(plot, 'pointermove', 705, 50, { buttons: 1, altKey: true });
    expect(page.store.state.area).toEqual({ from: 74_000, to: 521_700 });
  });

  test('pans on the axis and scrubs on the plate', () => {
    const page = open(runOf(ROWS));
    page.store.show({ from: 200_000, to: 400_000 });
    page.store.set({ time: 300_000 });
    page.draw('window', 'time');
    const plot = plotOf(page);
    send(plot, 'pointerdown', 100, 8);
    send(plot, 'pointermove', 200, 8, { buttons: 1 });
    send(plot, 'pointerup', 200, 8);
    expect(page.store.state.window).toEqual({ from: 180_000, to: 380_000 });
    page.draw('window');
    send(plot, 'pointerdown', 600, 8);
    send(plot, 'pointermove', 800, 8, { buttons: 1 });
    expect(page.store.state.time).toBe(340_000);
  });

  test('zooms with Ctrl and the wheel, pans with Shift, and leaves the page its own scrolling', () => {
    const page = open(runOf(ROWS));
    page.store.show({ from: 200_000, to: 400_000 });
    page.draw('window');
    const plot = plotOf(page);
    send(plot, 'wheel', 500, 50, { deltaY: 100 });
    expect(page.store.state.window).toEqual({ from: 200_000, to: 400_000 });
    send(plot, 'wheel', 500, 50, { deltaY: -100, ctrlKey: true });
    expect(page.store.state.window).toEqual({ from: 220_000, to: 380_000 });
    page.draw('window');
    send(plot, 'wheel', 500, 50, { deltaY: 100, shiftKey: true });
    expect(page.store.state.window).toEqual({ from: 236_000, to: 396_000 });
  });

  test('brings a card when it rests, and none while playing', () => {
    vi.useFakeTimers();
    const page = open(runOf(ROWS));
    const plot = plotOf(page);
    const card = page.element.querySelector<HTMLElement>('.nki-tl-card')!;
    send(plot, 'pointermove', 500, 50);
    expect(page.store.state.hover.step).toBe(1);
    expect(card.hidden).toBe(true);
    vi.advanceTimersByTime(130);
    expect(card.hidden).toBe(false);
    expect(card.textContent).toContain('nc_matmul');
    expect(card.textContent).toContain('320 ns for k from DMA');
    send(plot, 'pointermove', 850, 50);
    expect(card.hidden).toBe(true);
    page.store.set({ playing: true });
    send(plot, 'pointermove', 500, 50);
    vi.advanceTimersByTime(500);
    expect(card.hidden).toBe(true);
    vi.useRealTimers();
  });
});
