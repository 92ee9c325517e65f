import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { MARKS } from '../../src/_generated/schema';
import type { OwnedStore } from '../../src/store';
import { createStore } from '../../src/store';
import { decodeValues } from '../../src/tile_values';
import type { ErrorGrowth, State, ValuesAnswer, ValuesHost, ValuesQuestion } from '../../src/types';
import { createValues, type ValuesView } from '../../src/views/values';
import { shellRun } from '../shell_runs';
import { fakePalette, fakeScreen } from '../timeline/screen';
import type { Sheet } from '../timeline/screen';
import { NAMES } from '../messages';
import { valuesMessage } from './tiles';
import type { TileGiven } from './tiles';

/** A kernel that answers when it is told to. */
class Kernel implements ValuesHost {
  readonly isLive: boolean = true;
  readonly kept = [];
  readonly asked: ValuesQuestion[] = [];
  readonly searched: number[] = [];
  private last: (answer: ValuesAnswer) => void = () => undefined;
  found: (found: number | string) => void = () => undefined;
  grown: (found: ErrorGrowth | string) => void = () => undefined;

  ask(question: ValuesQuestion, answer: (answer: ValuesAnswer) => void): void {
    this.asked.push(question);
    this.last = answer;
  }
  indices(): void {
    throw new Error('Values asks for no indices.');
  }
  findNonfinite(step: number, answer: (found: number | string) => void): void {
    this.searched.push(step);
    this.found = answer;
  }
  growth(answer: (found: ErrorGrowth | string) => void): void {
    this.grown = answer;
  }
  dispose(): void {
    // Nothing waits.
  }
  say(answer: ValuesAnswer): void {
    this.last(answer);
  }
  send(given: TileGiven, types = {}): void {
    this.last({ kind: 'tile', tile: decodeValues(valuesMessage(given, types)), pinned: false });
  }
}

const ROWS = [[1, -2, 0.25], [NaN, 4, -8]]; // prettier-ignore
const SPOTTED = [[0, 0, 0], [MARKS.nan, 0, 0]]; // prettier-ignore

let sheets: readonly Sheet[];
let kernel: Kernel;
let store: OwnedStore;
let view: ValuesView;
let said: string[];

beforeEach(() => {
  vi.useFakeTimers();
  sheets = fakeScreen(420);
  document.body.replaceChildren();
});
afterEach(() => {
  view.dispose();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function open(values: ValuesHost | undefined, header = {}): void {
  const run = shellRun({ header });
  store = createStore(run);
  said = [];
  view = createValues({ run, store, palette: fakePalette, speak: text => said.push(text), values });
  document.body.append(view.element);
  draw('panel');
}

function live(): void {
  kernel = new Kernel();
  open(kernel);
}

function draw(...changes: (keyof State)[]): void {
  view.draw(store.state, new Set(changes));
  vi.advanceTimersByTime(100);
}

const text = (selector: string): string => view.element.querySelector(selector)?.textContent ?? '';
const press = (key: string, more: KeyboardEventInit = {}): void => {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  view.element.querySelector('.nki-values-box')?.dispatchEvent(event);
};
const button = (words: string): HTMLButtonElement =>
  [...view.element.querySelectorAll('button')].find(one => one.textContent.startsWith(words))!;

describe('the values view', () => {
  test('asks for what the current instruction writes, once', () => {
    live();
    store.goToStep(1);
    draw('step');
    draw('hover');
    draw('step');
    expect(kernel.asked.map(({ step, buffer, when }) => [step, buffer, when])).toEqual([
      [0, 0, 'after'],
      [1, 1, 'after'],
    ]);
    expect(view.element.getAttribute('aria-label')).toContain('after step 2');
  });

  test('asks for the selected tile instead', () => {
    live();
    store.set({ tile: 1 });
    draw('tile');
    expect(kernel.asked.at(-1)?.buffer).toBe(1);
  });

  test('asks nothing while it is hidden or the run plays', () => {
    kernel = new Kernel();
    const hidden = document.createElement('div');
    open(kernel);
    const before = kernel.asked.length;
    hidden.hidden = true;
    document.body.append(hidden);
    hidden.append(view.element);
    store.goToStep(2);
    draw('step');
    expect(kernel.asked).toHaveLength(before);
    hidden.hidden = false;
    store.set({ playing: true });
    draw('playing', 'step');
    expect(kernel.asked).toHaveLength(before);
    expect(text('.nki-values-message')).toContain('when playing stops');
    store.set({ playing: false });
    draw('playing');
    expect(kernel.asked).toHaveLength(before + 1);
  });

  test('shows numbers, marks and counts', () => {
    live();
    const counts = { nan: 1, inf: 0, saturated: 0, subnormal: 0, zero: 0, unwritten: 0 };
    kernel.send({ rows: ROWS, marks: SPOTTED, header: { counts } });
    const cells = [...view.element.querySelectorAll('[role=gridcell]')].map(cell => cell.textContent);
    expect(cells).toEqual(['1', '−2', '0.25', 'NaN', '4', '−8']);
    expect(text('.nki-values-readout')).toContain('[0, 0]1');
    expect(text('.nki-values-readout')).toContain('0x3F800000');
    expect(text('.nki-values-figures .nki-over')).toBe('NaN1');
    expect(sheets.some(sheet => sheet.texts.includes('NaN'))).toBe(true);
    expect(text('.nki-values-message')).toBe('');
  });

  test('moves by keys within the tile, and speaks', () => {
    live();
    kernel.send({ rows: ROWS, marks: SPOTTED });
    press('ArrowRight');
    expect(said.at(-1)).toBe('[0, 1], −2');
    press('ArrowDown', { shiftKey: true });
    press('End');
    expect(said.at(-1)).toBe('[1, 2], −8');
    press('Home');
    expect(said.at(-1)).toBe('[1, 0], NaN');
    press('ArrowLeft');
    press('PageUp');
    expect(said.at(-1)).toBe('[0, 0], 1');
    expect(view.element.querySelector('[aria-selected=true]')?.textContent).toBe('1');
  });

  test('goes to the next marked element from its count', () => {
    live();
    const counts = { nan: 1, inf: 0, saturated: 0, subnormal: 0, zero: 0, unwritten: 0 };
    kernel.send({ rows: ROWS, marks: SPOTTED, header: { counts } });
    view.element.querySelector<HTMLButtonElement>('.nki-values-figures button')?.click();
    expect(said.at(-1)).toBe('[1, 0], NaN');
  });

  test('asks again for another moment or reference', () => {
    live();
    kernel.send({ rows: ROWS, header: { references: ['shadow'] } });
    button('Before').click();
    vi.advanceTimersByTime(100);
    expect(kernel.asked.at(-1)?.when).toBe('before');
    const select = view.element.querySelectorAll('select')[1];
    select.value = 'shadow';
    select.dispatchEvent(new Event('change'));
    vi.advanceTimersByTime(100);
    expect(kernel.asked.at(-1)?.against).toBe('shadow');
    const all = ROWS.flat();
    const header = { references: ['shadow'], against: 'shadow', error: { largest: 0.5, row: 0, column: 0, mean: 0 } };
    kernel.send({ rows: ROWS, reference: all.map(value => value + 1), error: all.map(() => 0.5), header });
    const titles = [...view.element.querySelectorAll('figure:not([hidden]) .nki-values-map-title')];
    expect(titles.map(title => title.textContent)).toEqual(['This run', 'Reference', 'Relative error']);
    expect(text('.nki-values-readout')).toContain('ref 2');
  });

  test('shows bits as they are', () => {
    live();
    kernel.send({ rows: [[1, 448]], bits: [0x38, 0x7e], header: { width: 8, digits: 3 } });
    button('Bits').click();
    expect([...view.element.querySelectorAll('[role=gridcell]')].map(cell => cell.textContent)).toEqual(['38', '7E']);
  });

  test('says why there is nothing', () => {
    live();
    kernel.say({ kind: 'waiting', reason: 'The kernel is busy.' });
    expect(text('.nki-values-message')).toBe('The kernel is busy.');
    kernel.say({ kind: 'none', reason: 'Values not recorded: a profile computes none.' });
    expect(text('.nki-values-message')).toBe('Values not recorded: a profile computes none.');
    expect(view.element.querySelector<HTMLElement>('.nki-values-body')?.hidden).toBe(true);
  });

  test('without a kernel says that it needs one', () => {
    open(undefined);
    expect(text('.nki-values-message')).toContain('need the kernel');
    view.nextNonfinite();
    expect(said.at(-1)).toContain('need the kernel');
  });

  test('takes no answer for another question than its last', () => {
    live();
    const first = kernel.asked.length;
    const late = (kernel as unknown as { last: (answer: ValuesAnswer) => void }).last;
    store.goToStep(1);
    draw('step');
    expect(kernel.asked.length).toBe(first + 1);
    late({ kind: 'none', reason: 'old' });
    expect(text('.nki-values-message')).not.toBe('old');
  });

  test('leads to the next NaN and the next write', () => {
    live();
    view.nextNonfinite();
    expect(kernel.searched).toEqual([0]);
    kernel.found(3);
    expect(store.state.step).toBe(3);
    expect(said.at(-1)).toContain('instruction 4');
    view.nextNonfinite();
    kernel.found(-1);
    expect(said.at(-1)).toContain('No later');
    store.goToStep(0);
    draw('step');
    button('Next write').click();
    expect(store.state.step).toBe(2);
    expect(store.state.tile).toBe(0);
  });

  test('draws where the error grows', () => {
    live();
    kernel.send({ rows: ROWS, header: { references: ['shadow'] } });
    button('Work out').click();
    kernel.grown({ steps: [0, 2, 4], errors: [0, 1e-4, 0.1], tolerance: 0.01, first: 2, text: '<b>nc_matmul</b>' });
    expect(text('.nki-values-cause')).toContain('#3. <b>nc_matmul</b>');
    view.element.querySelector<HTMLButtonElement>('.nki-values-cause button')?.click();
    expect(store.state.selected).toBe(2);
  });

  test.each([
    ['an element', [[3]], {}],
    ['no elements', [[]], { rows: 128, columns: 0, low: undefined, high: undefined }],
    ['only NaN', [[NaN, NaN]], { low: undefined, high: undefined }],
    ['five dimensions', [[1, 2, 3, 4]], { shape: [1, 1, 2, 1, 2] }],
  ])('draws a tile of %s', (_, rows, header) => {
    live();
    kernel.send({ rows, header });
    for (const look of ['Magnitude', 'Bits', 'Signed']) button(look).click();
    press('ArrowRight');
    button('Expand').click();
    expect(view.element.hasAttribute('data-wide')).toBe(true);
    expect(view.element.querySelector<HTMLElement>('.nki-values-body')?.hidden).toBe(false);
  });

  test('has names as text', () => {
    kernel = new Kernel();
    const markup = '<img src=x onerror=alert(1)>';
    open(kernel, { names: NAMES.map(name => (name === 'k' ? markup : name)) });
    kernel.send({ rows: [[1]], header: { dtype: markup, references: [markup] } });
    expect(view.element.querySelector('img')).toBeNull();
    expect(text('.nki-values-name')).toContain('<img');
  });

  test('finds tiles by name', () => {
    live();
    const search = view.element.querySelector<HTMLInputElement>('input')!;
    search.value = 'OU';
    search.dispatchEvent(new Event('input'));
    expect(text('optgroup[label=Found]')).toBe('out');
    search.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    expect(store.state.tile).toBe(1);
  });
});
