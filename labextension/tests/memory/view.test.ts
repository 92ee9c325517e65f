import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import type { OwnedStore } from '../../src/store';
import { createStore } from '../../src/store';
import type { Run, State, View } from '../../src/types';
import { createMemory } from '../../src/views/memory';
import type { RowGiven, RunGiven } from '../messages';
import { fakePalette, fakeScreen } from '../timeline/screen';
import type { Sheet } from '../timeline/screen';
import { runWith } from './tiles';
import type { TileGiven } from './tiles';

const US = 1_000_000;
const KIB = 1024;
const TILES: readonly TileGiven[] = [
  { byte: 0, bytes: 16 * KIB, start: 0, written: 10 * US, end: 50 * US, site: 0 },
  { byte: 16 * KIB, bytes: 16 * KIB, start: 20 * US, written: 60 * US, end: 90 * US, site: 0 },
  { byte: 0, bytes: 16 * KIB, start: 70 * US, written: 80 * US, end: 100 * US, site: 0, writer: 1 },
  { space: 'psum', byte: 2048, bytes: 2048, start: 0, written: 60 * US, end: 100 * US, writer: 0 },
];
const ROWS: readonly RowGiven[] = [
  { lane: 2, start: 0, duration: 10 * US, accesses: [[0, 1]] },
  { lane: 0, start: 30 * US, duration: 20 * US, accesses: [[3, 2], [0, 0]], site: 0 }, // prettier-ignore
  { lane: 0, start: 52 * US, duration: 7 * US, accesses: [[3, 2], [0, 0]], site: 0 }, // prettier-ignore
];

interface Page {
  readonly view: View;
  readonly store: OwnedStore;
  readonly element: HTMLElement;
  readonly said: string[];
  /** Bring the page up to the store's state. */
  readonly draw: (...changes: (keyof State)[]) => void;
}

let sheets: readonly Sheet[];
let pages: Page[];

beforeEach(() => {
  document.body.replaceChildren();
  pages = [];
});
afterEach(() => {
  for (const page of pages) page.view.dispose();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function open(run: Run, width = 420): Page {
  sheets = fakeScreen(width);
  const store = createStore(run);
  const said: string[] = [];
  const view = createMemory({ run, store, palette: fakePalette, speak: text => said.push(text) });
  document.body.append(view.element);
  const draw = (...changes: (keyof State)[]): void => view.draw(store.state, new Set(changes));
  const page = { view, store, element: view.element, said, draw };
  pages.push(page);
  draw();
  return page;
}

function at(time: number, width = 420, tiles = TILES, given: RunGiven = {}): Page {
  const page = open(runWith(tiles, ROWS, given), width);
  page.store.goTo(time);
  page.draw('time');
  return page;
}

const text = (page: Page, selector: string): string => page.element.querySelector(selector)?.textContent ?? '';
const wrote = (words: string): boolean => sheets.some(sheet => sheet.texts.includes(words));
const button = (page: Page, words: string): HTMLButtonElement => {
  const found = [...page.element.querySelectorAll('button')].find(one => one.textContent.startsWith(words));
  if (found === undefined) throw new Error(`there is no button ${words}`);
  return found;
};

describe('the memory view', () => {
  test('says which moment it shows, and the operands of the instruction', () => {
    const page = at(35 * US);
    expect(page.element.getAttribute('aria-label')).toBe('Memory of kernel at 35.00 µs');
    expect(text(page, '.nki-memory-head')).toContain('at 35.00 µs');
    expect(text(page, '.nki-memory-operands')).toBe('k k[0]');
  });

  test('names the tiles of the moment, and how full the memory is', () => {
    const page = at(35 * US);
    expect(wrote('k[0]')).toBe(true);
    expect(wrote('k[1]')).toBe(true);
    const map = sheets.find(sheet => sheet.canvas === page.element.querySelector('canvas'));
    expect(map?.texts).not.toContain('k[2]');
    expect(text(page, '.nki-memory-sbuf .nki-memory-words')).toBe('addresses 0–40 of 192 KiB shown');
    page.store.set({ usedRange: false });
    page.draw('usedRange');
    expect(text(page, '.nki-memory-sbuf .nki-memory-words')).toBe('128 partitions × 192 KiB');
  });

  test('has states, gaps and the accumulation in words where it is wide', () => {
    const page = at(55 * US, 1200);
    expect(wrote('dead')).toBe(true);
    expect(wrote('k 1 of 2')).toBe(true);
    expect(wrote('addresses up to 32 KiB at 20.00 µs')).toBe(true);
    expect(text(page, '.nki-memory-pressure')).toContain('dead 16 KiB');
    expect(text(page, '.nki-memory-pressure')).toContain('free 160 KiB');
    expect(text(page, '.nki-memory-pressure')).toContain('peak 32 KiB at 20.00 µs');
    expect(text(page, '.nki-memory-pressure')).toContain('addressed up to ');
    expect(wrote('free: 160 KiB in 1 gap')).toBe(true);
    expect(text(page, '.nki-memory-psum')).toContain('1 of 8 banks in use');
  });

  test('tells all of a selected tile, and leads to its line and readers', () => {
    const page = at(35 * US, 1200);
    page.store.set({ tile: 0 });
    page.draw('tile');
    const details = text(page, '.nki-memory-details');
    for (const words of ['k[0]', '0x0–0x3FFF', '16 KiB × 128 = 2 MiB', '0 ns → 10.00 µs, DMA q0', '2 × nc_matmul']) {
      expect(details).toContain(words);
    }
    expect(details).toContain('70.00 µs by k[2]');
    expect(details).toContain('slot 1 of 2');
    expect(details).toContain('Alive 50.00 µs: 20 % loading, 80 % in use, then dead 20.00 µs');
    button(page, 'Next reader').click();
    expect(page.store.state.selected).toBe(2);
    button(page, 'Line 1').click();
    expect(page.store.state).toMatchObject({ line: { source: 0, line: 1 }, panel: 'source' });
  });

  test('says in words that tiles have no addresses', () => {
    const page = at(35 * US, 420, [{ byte: -1, start: 0, end: 90 * US }]);
    expect(text(page, '.nki-memory-none')).toBe('No addresses: the run has 1 tile in SBUF and does not say where.');
    expect(page.element.querySelector<HTMLElement>('.nki-memory-lifetimes')?.hidden).toBe(true);
  });

  test('says what is over capacity, with the code of the finding', () => {
    const finding = {
      code: 'NKI315',
      severity: 'error',
      message: 'dma_copy: live SBUF tensors',
      file: 'kernel.py',
      line: 1,
    };
    const tiles = [...TILES, { byte: -1, bytes: 12 * KIB, start: 0, end: 90 * US }];
    const page = at(35 * US, 420, tiles, { header: { findings: [finding] } });
    expect(text(page, '.nki-memory-callout')).toBe('12 KiB overk found no room in 192 KiB NKI315');
    button(page, 'NKI315').click();
    expect(page.store.state.line).toEqual({ source: 0, line: 1 });
    page.store.goTo(95 * US);
    page.draw('time');
    expect(page.element.querySelector<HTMLElement>('.nki-memory-callout')?.hidden).toBe(true);
  });

  test('selects the tile that is clicked, and nothing beside the tiles', () => {
    const page = at(35 * US);
    const [canvas] = page.element.querySelectorAll('canvas');
    canvas.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 60, clientY: 60 }));
    expect(page.store.state.tile).toBe(0);
    canvas.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 400, clientY: 60 }));
    expect(page.store.state.tile).toBe(-1);
  });

  test('previews the tile under the pointer after a rest', () => {
    vi.useFakeTimers();
    const page = at(35 * US);
    const [canvas] = page.element.querySelectorAll('canvas');
    canvas.dispatchEvent(new MouseEvent('pointermove', { bubbles: true, clientX: 60, clientY: 60 }));
    expect(page.store.state.hover.tile).toBe(0);
    expect(page.element.querySelector<HTMLElement>('.nki-memory-card')?.hidden).toBe(true);
    vi.advanceTimersByTime(150);
    expect(text(page, '.nki-memory-card')).toContain('0x0–0x3FFF');
    page.view.element.querySelector('.nki-memory-sbuf')?.dispatchEvent(new MouseEvent('pointerleave'));
    expect(page.store.state.hover.tile).toBe(-1);
  });

  test('has a table of the tiles in place of the pictures, and its text to copy', async () => {
    const page = at(35 * US);
    button(page, 'Table').click();
    const rows = [...page.element.querySelectorAll('tbody tr')].map(row =>
      [...row.children].map(cell => cell.textContent).join(' | '),
    );
    expect(rows[1]).toBe('k[0] | live | 0x0–0x3FFF | 16 KiB | 0–127 | DMA q0');
    expect(rows[2]).toBe('k[1] | 38 % written | 0x4000–0x7FFF | 16 KiB | 0–127 | DMA q0');
    expect(page.element.querySelector<HTMLElement>('.nki-memory-body')?.hidden).toBe(true);
    const copied: string[] = [];
    vi.spyOn(navigator.clipboard, 'writeText').mockImplementation(words => {
      copied.push(words);
      return Promise.resolve();
    });
    button(page, 'Copy as text').click();
    await Promise.resolve();
    expect(copied[0].split('\n').slice(0, 3)).toEqual([
      'Memory of kernel at 35.00 µs, step 2',
      'Memory\tTile\tState\tAddress\tPer partition\tPartitions\tWriter',
      'SBUF\tk[0]\tlive\t0x0–0x3FFF\t16 KiB\t0–127\tDMA q0',
    ]);
    expect(page.said).toEqual(['Copied']);
  });

  test('colours by age on its own, and else with the timeline', () => {
    const page = at(35 * US, 1200);
    const pressed = (): string => text(page, '[aria-label="Colour"] [aria-pressed="true"]');
    expect(pressed()).toBe('Writer');
    button(page, 'Age').click();
    expect([pressed(), page.store.state.colourBy]).toEqual(['Age', 'engine']);
    button(page, 'Tensor').click();
    page.draw('colourBy');
    expect([pressed(), page.store.state.colourBy]).toEqual(['Tensor', 'tensor']);
  });

  test('gives its pictures words once nothing moves', () => {
    vi.useFakeTimers();
    const page = at(35 * US);
    vi.advanceTimersByTime(300);
    const [sbuf, psum] = [...page.element.querySelectorAll('canvas')].map(one => one.getAttribute('aria-label'));
    expect(sbuf).toContain('k[0] live, k[1] 38 % written');
    expect(psum).toContain('PSUM, 8 banks');
  });

  test('shows names as text, whatever they are', () => {
    const page = at(35 * US, 1200, TILES, { header: { names: ['', 'nc_matmul', 'fp32', '<b>k</b>', 'i', 'j', 'kernel', 'out', 'float32'] } }); // prettier-ignore
    page.store.set({ tile: 0 });
    page.draw('tile');
    expect(page.element.querySelector('.nki-memory-details code')?.textContent).toBe('<b>k</b>[0]');
    expect(page.element.querySelector('.nki-memory-details code b')).toBeNull();
  });

  test('opens at the fullest moment, says so, and follows the cursor once that is moved', () => {
    const page = open(runWith(TILES, ROWS));
    expect(text(page, '.nki-memory-head')).toContain('fullest at 20.00 µs');
    expect(page.store.state.time).toBe(0);
    expect(wrote('k[1]')).toBe(true);
    button(page, 'Go there').click();
    page.draw('time');
    expect(page.store.state.time).toBe(20 * US);
    expect(text(page, '.nki-memory-head')).toContain('Memoryat 20.00 µs');
    page.store.goTo(0);
    page.draw('time');
    expect(text(page, '.nki-memory-head')).toContain('at 0 ns');
  });

  test('opens a failed run at its fault', () => {
    const page = open(runWith(TILES, ROWS, { header: { fault: 2 } }));
    expect(text(page, '.nki-memory-head')).toContain('at 52.00 µs');
  });

  test('shows one core, that of the selected instruction', () => {
    const lanes = [
      { name: 'tensor', kind: 'engine', core: 0 },
      { name: 'tensor', kind: 'engine', core: 1 },
    ];
    const tiles = [0, 1].map(core => ({ byte: 0, bytes: (1 + core) * KIB, start: 0, end: 90 * US, writer: core }));
    const rows = [0, 1].map(lane => ({ lane, start: lane * US, duration: US, accesses: [[lane, 1] as const] }));
    const page = open(runWith(tiles, rows, { header: { lanes } }));
    const pressed = (): string => text(page, '.nki-memory-cores [aria-pressed="true"]');
    expect(pressed()).toBe('Core 1'); // the fuller one
    button(page, 'Core 0').click();
    expect(pressed()).toBe('Core 0');
    expect(text(page, '.nki-memory-pressure')).toContain('live 1 KiB');
    page.store.select(1);
    page.draw('selected');
    expect(pressed()).toBe('Core 1');
    expect(text(page, '.nki-memory-pressure')).toContain('live 2 KiB');
    page.store.set({ tile: 0 });
    page.draw('tile');
    expect(pressed()).toBe('Core 0');
  });

  test('answers who lies at a byte, since when, who wrote it and who reads it', () => {
    const page = at(35 * US, 1200);
    const input = page.element.querySelector<HTMLInputElement>('.nki-memory-query input')!;
    const ask = (words: string): string => {
      input.value = words;
      page.element.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
      return text(page, '.nki-memory-answer');
    };
    const found = ask('partition 17, byte 0x400, 42 µs');
    expect(found).toContain('SBUF, partition 17, byte 0x400 at 42.00 µs');
    expect(found).toContain('k[0] live, there since 0 ns');
    expect(found).toContain('nc_matmul #1 on DMA q0 at 0 ns');
    expect(found).toContain('nc_matmul #2 on Tensor at 30.00 µs, now');
    expect(ask('p 3 0x10 60us')).toContain('k[0] dead since 50.00 µs');
    expect(ask('partition 3, byte 64 KiB')).toContain('free in the whole run');
    expect(ask('bank 1, partition 0, 35 us')).toContain('PSUM');
    expect(ask('partition 128, byte 0')).toContain('There are 128 partitions');
    expect(ask('byte 0x99999')).toContain('192 KiB');
    expect(ask('<b>what</b>')).toContain('Write a partition');
    expect(ask('partition 1, byte 0, 99 ms')).toContain('The run ends at 100.00 µs');
    ask('partition 17, byte 0x400, 42 µs');
    [...page.element.querySelectorAll<HTMLElement>('.nki-memory-step')][1].click();
    expect(page.store.state.selected).toBe(1);
  });

  test('moves the focus from tile to tile, reads them out, and selects with Enter', () => {
    const page = at(35 * US);
    const frame = page.element.querySelector<HTMLElement>('.nki-memory-sbuf .nki-memory-focus')!;
    const press = (key: string, more = {}): boolean =>
      frame.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
    frame.focus();
    expect(frame.getAttribute('aria-label')).toContain('k[0], live, 0x0–0x3FFF');
    press('ArrowRight');
    expect(page.said.at(-1)).toContain('k[1], 38 % written');
    frame.click();
    expect(page.store.state.tile).toBe(1);
    press('+');
    expect(text(page, '.nki-memory-sbuf .nki-memory-words')).not.toContain('0–40');
    press('0');
    expect(text(page, '.nki-memory-sbuf .nki-memory-words')).toBe('addresses 0–40 of 192 KiB shown');
    expect(press('x')).toBe(true); // not a key of the picture
  });

  test('shows details of a clicked tile in a column at once, until they are closed', () => {
    const page = at(35 * US);
    const details = page.element.querySelector<HTMLElement>('.nki-memory-details')!;
    expect(details.hidden).toBe(true);
    const [canvas] = page.element.querySelectorAll('canvas');
    canvas.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 60, clientY: 60 }));
    page.draw('tile');
    expect(details.hidden).toBe(false);
    expect(details.textContent).toContain('0x0–0x3FFF');
    expect(details.textContent).toContain('written by nc_matmul #1');
    page.element.querySelector<HTMLElement>('.nki-memory-close')!.click();
    page.draw('tile');
    expect(details.hidden).toBe(true);
  });

  test('expands across the width and back', () => {
    const page = at(35 * US);
    const expand = page.element.querySelector<HTMLElement>('.nki-memory-expand')!;
    expand.click();
    expect(page.store.state.expanded).toBe('memory');
    page.draw('expanded');
    expect(expand.getAttribute('aria-pressed')).toBe('true');
    expand.click();
    expect(page.store.state.expanded).toBeNull();
  });

  test('says that nothing is there, and draws tiles of no bytes, of one partition and over each other', () => {
    const tiles: readonly TileGiven[] = [
      { byte: 0, bytes: 0, start: 10 * US, end: 90 * US },
      { byte: 64, bytes: 64, top: 5, partitions: 1, start: 10 * US, end: 90 * US },
      { byte: 96, bytes: 64, top: 5, partitions: 1, start: 10 * US, end: 90 * US },
    ];
    const page = at(5 * US, 420, tiles);
    expect(wrote('nothing is in SBUF at 5.00 µs')).toBe(true);
    page.store.goTo(20 * US);
    page.draw('time');
    const input = page.element.querySelector<HTMLInputElement>('.nki-memory-query input')!;
    input.value = 'partition 5, byte 100';
    page.element.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
    expect(text(page, '.nki-memory-answer')).toMatch(/k\[1\] live.*k\[2\] live/);
  });
});
