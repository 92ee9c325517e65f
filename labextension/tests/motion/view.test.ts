/** The motion view and its model, on runs of every awkward kind. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ARRANGEMENTS, DESCRIPTOR_MODES, INDIRECTIONS, THIN } from '../../src/_generated/schema';
import type { LoadedRun } from '../../src/run';
import { createStore, type OwnedStore } from '../../src/store';
import type { Context, IndicesAnswer, Palette, ValuesHost } from '../../src/types';
import type { Picks } from '../../src/views/motion/access';
import { createMotion, type MotionView } from '../../src/views/motion';
import { fitted, shadeOf } from '../../src/views/motion/tile';
import { gathered, motionOf, progress, type IndexValues } from '../../src/views/motion/model';
import { describe as words } from '../../src/views/motion/text';
import type { RowGiven, RunGiven } from '../messages';
import { runOf } from '../timeline/runs';

const [READ, WRITE, ADD] = [0, 1, 2];
const NAMES = [
  '',
  'copy',
  '<b>k</b>',
  'k_t',
  'psum',
  'bfloat16',
  'float32',
  'dst src',
  'mm',
  'dst stationary moving',
  'ids',
  'int32',
  'strange',
];
const MACHINE = {
  arrayRows: 128, arrayColumns: 128, dmaEngines: 16, dmaEngineRate: 23,
  dmaEfficiency: { bytes: [32, 512, 8192], shares: [0.02, 0.2, 0.98] },
}; // prettier-ignore

/** Ops: 0 a transfer, 1 a product, 2 anything. Patterns and views as below; lane 0 is Tensor, 1 Vector, 2 a queue. */
const PATTERNS: readonly (readonly [number, readonly (readonly [number, number])[]])[] = [
  [5, [[64, 4096], [4096, 1]]], // 0: k
  [5, [[64, 512], [512, 1]]], // 1: k_t
  [5, [[64, 4096], [512, 1]]], // 2: a block of k
  [6, [[128, 512], [512, 1]]], // 3: psum
  [5, [[64, 512], [128, 1]]], // 4: columns of k_t
  [5, [[1, 512], [1, 1]]], // 5: one element
  [5, [[2, 512], [2, 64], [2, 16], [2, 4], [2, 1]]], // 6: five dimensions
  [5, [[0, 512], [4, 1]]], // 7: nothing
  [5, [[64, 512], [8, 0], [4, -1]]], // 8: broadcast, backwards
  [11, [[64, 1], [1, 1]]], // 9: indices
  [12, [[4, 3]]], // 10: a dtype that nobody knows
]; // prettier-ignore

const VIEWS: readonly (readonly [number, number, number, number, number])[] = [
  // buffer, pattern, offset, indirect, index
  [0, 2, 1536, 0, -1], // 0: k[:, 1536:2048]
  [1, 1, 0, 0, -1], // 1: k_t
  [2, 3, 0, 0, -1], // 2: psum
  [1, 4, 128, 0, -1], // 3: k_t[:, 128:256]
  [1, 5, 700, 0, -1], // 4: one element
  [1, 6, 0, 0, -1], // 5: five dimensions
  [1, 7, 0, 0, -1], // 6: nothing
  [1, 8, 9, 0, -1], // 7: broadcast
  [0, 0, 0, 2, 9], // 8: rows of k by ids
  [3, 9, 0, 0, -1], // 9: ids
  [0, 0, 0, 1, -1], // 10: a register
  [4, 10, 2, 0, -1], // 11: without a shape
  [0, 0, 0, 3, 77], // 12: an index that is not there
];

function tablesOf(): Record<string, Record<string, number[]>> {
  const dims = PATTERNS.flatMap(([, list]) => list);
  let first = 0;
  const places = PATTERNS.map(([, list]) => (first += list.length) - list.length);
  const view = (i: number): number[] => VIEWS.map(item => item[i]);
  return {
    patterns: { dtype: PATTERNS.map(([dtype]) => dtype), dim: places, rank: PATTERNS.map(([, list]) => list.length) },
    dims: { size: dims.map(([size]) => size), step: dims.map(([, step]) => step) },
    views: {
      buffer: view(0),
      pattern: view(1),
      offset: view(2),
      indirect: view(3),
      index: view(4).map(id => Math.min(id, 9)),
    },
    ops: {
      name: [1, 8, 12],
      detail: [0, 0, 0],
      work_unit: [0, 0, 0],
      operands: [7, 9, 0],
      arrangement: [ARRANGEMENTS.indexOf('in order'), ARRANGEMENTS.indexOf('product'), 0],
      stationary: [-1, 1, -1],
      moving: [-1, 2, -1],
      mode: [DESCRIPTOR_MODES.indexOf('hardware'), 0, 0],
      descriptors: [64, 0, 0],
      descriptor_bytes: [1024, 0, 0],
      engines: [255, 0, 0],
      cadence: [850_000, 0, 0],
    },
  };
}

type Given = RowGiven & { readonly op?: number; readonly bytes?: number };

const picks = (values: readonly number[], stride = 4096): Picks => ({ values, stride, lowest: 0, highest: 63 });

function runWith(rows: readonly Given[], given: RunGiven = {}, isOld = false): LoadedRun {
  const tables = tablesOf();
  if (isOld) {
    delete tables.views.index;
    tables.ops = { name: [1, 8, 12], detail: [0, 0, 0] };
  }
  const plain = runOf(rows, {
    ...given,
    header: { names: NAMES, ...(isOld ? {} : { machine: MACHINE }), ...given.header },
    buffers: [
      [2, 3, 1, 0, -1, 1, -1, 524288, -1],
      [3, 0, 0, 1, 0, 64, 0x600, 1024, -1],
      [4, 1, 0, 3, 0, 128, 2048, 2048, -1],
      [10, 0, 0, 9, 0, 64, 0x4000, 4, -1],
      [12, 3, 0, -1, -1, 1, -1, 0, -1],
    ],
    tables: { ...tables, ...given.tables },
  });
  // The rows of `messages.ts` all have op 0 and move nothing.
  rows.forEach((row, i) => {
    plain.rows.op[i] = row.op ?? 2;
    plain.rows.bytes[i] = row.bytes ?? 0;
  });
  return plain;
}

const LOAD: Given = { lane: 2, start: 0, duration: 356_000, op: 0, bytes: 65536, accesses: [[1, WRITE], [0, READ]] }; // prettier-ignore
const product = (start: number, role: number): Given => ({
  lane: 0, start, duration: 213_000, op: 1, accesses: [[2, role], [3, READ], [1, READ]],
}); // prettier-ignore

describe('the model of a motion', () => {
  it('tells a transfer in figures that follow from the recording', () => {
    const run = runWith([LOAD]);
    const motion = motionOf(run, 0);
    expect(motion.inputs.map(item => item.subscript)).toEqual(['[:, 1536:2048]']);
    expect(motion.inputs[0].slice.rects).toEqual([{ row: 0, rows: 64, column: 1536, columns: 512 }]);
    const { transfer } = motion;
    expect(transfer).toMatchObject({ descriptors: 64, descriptorBytes: 1024, together: 512, mode: 'hardware' });
    expect(transfer!.engines).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(transfer!.rate / 1e9).toBeCloseTo(65536 / 356, 6);
    expect(transfer!.peak / 1e9).toBeCloseTo(368, 9);
    expect(transfer!.efficiency).toBeCloseTo(65536 / 850 / (8 * 23), 9);
    expect(transfer!.share).toBeCloseTo(65536 / 850 / 368, 9);
    expect(words(motion)).toBe(
      'copy: <b>k</b>[:, 1536:2048] of HBM (64 runs of 1 KiB, 8 KiB apart; 64 × 512 bfloat16) to ' +
        'k_t of SBUF (partitions 0–63; 64 × 512 bfloat16). ' +
        '64 descriptors of 1 KiB (512 elements that touch), written by hardware, on 8 of 16 engines.',
    );
  });

  it('tells a product with its array, its operands of whom, and its place in the accumulation', () => {
    const rows = [LOAD, product(400_000, WRITE), product(700_000, ADD), product(1_000_000, ADD)];
    const out: Given = { lane: 1, start: 1_300_000, duration: 10, accesses: [[1, WRITE], [2, READ]] }; // prettier-ignore
    const run = runWith([...rows, out, product(1_400_000, ADD)]);
    const at = (step: number): unknown => motionOf(run, step).accumulation;
    expect(at(1)).toEqual({ place: 1, count: 3, whole: true });
    expect(at(2)).toEqual({ place: 2, count: 3, whole: true });
    expect(at(3)).toEqual({ place: 3, count: 3, whole: true });
    expect(at(5)).toBe(null); // after it was read, a sum begins again
    const motion = motionOf(run, 2);
    expect(motion.product).toEqual({ rows: 128, columns: 128, usedRows: 64, usedColumns: 128, streamed: 512 });
    expect(motion.inputs.map(item => [item.name, item.part, item.writer, item.reader])).toEqual([
      ['stationary', 'stationary', 0, 3],
      ['moving', 'moving', 0, 3],
    ]);
    expect(motion.outputs.map(item => [item.writer, item.reader])).toEqual([[1, 4]]);
    expect(motion.inputs[0].origin?.buffer.name).toBe('<b>k</b>');
  });

  it('keeps apart what other instructions do with other columns', () => {
    const other: Given = { lane: 1, start: 400_000, duration: 10, accesses: [[4, WRITE]] }; // k_t[1, 188]
    const user: Given = { lane: 1, start: 500_000, duration: 10, accesses: [[3, READ]] }; // k_t[:, 128:256]
    const free: Given = { lane: 1, start: 600_000, duration: 10, accesses: [[5, READ]] };
    const run = runWith([LOAD, other, user, free]);
    expect(motionOf(run, 2).inputs[0].writer).toBe(1);
    const apart = runWith([LOAD, { ...other, accesses: [[5, WRITE]] }, user]);
    expect(motionOf(apart, 2).inputs[0].writer).toBe(0); // five dimensions, but columns 0 to 127
  });

  it('gathers rows by values where somebody has them, and says where nobody has', () => {
    const gather: Given = { lane: 2, start: 0, duration: 10, op: 0, bytes: 1, accesses: [[1, WRITE], [8, READ]] }; // prettier-ignore
    const run = runWith([gather]);
    const without = motionOf(run, 0);
    expect(words(without)).toContain('rows by ids, values not kept');
    expect(without.inputs.map(item => item.part)).toEqual(['', 'index']);
    expect(without.inputs[0].slice).toMatchObject({ exact: false, bounds: { row: 0, rows: 64 } });
    expect(shadeOf(without.inputs[0], 'in order')).toBe(-1);
    const values: IndexValues = view => (view === 8 ? picks([3, 3, 63, 64, -1]) : 'the kernel is busy');
    const found = motionOf(run, 0, values);
    expect(found.inputs[0].slice.rects.map(rect => rect.row)).toEqual([3, 63]);
    expect(found.inputs[0].slice).toMatchObject({ exact: true, bounds: { row: 3, rows: 61 } });
    expect(words(found)).not.toContain('not kept');
    expect(words(found)).toContain('rows by ids, 2 of 5 outside of the tensor');
    expect(words(motionOf(run, 0, () => 'the kernel is busy'))).toContain('rows by ids, the kernel is busy');
  });

  it('draws each chosen row where its index and its stride put it', () => {
    const gather: Given = { lane: 2, start: 0, duration: 10, op: 0, bytes: 1, accesses: [[1, WRITE], [8, READ]] }; // prettier-ignore
    const run = runWith([gather]);
    const rowsOf = (values: readonly number[], stride = 4096): number[] =>
      motionOf(run, 0, () => picks(values, stride)).inputs[0].slice.rects.map(rect => rect.row);
    expect(rowsOf([5, 1, 5, 0])).toEqual([0, 1, 5]);
    expect(rowsOf([5, 1, 2], 2 * 4096)).toEqual([2, 4, 10]); // an index of two rows
    expect(rowsOf([-3, 64])).toEqual([]);
    expect(rowsOf([])).toEqual([]);
    const many = motionOf(run, 0, () => ({ ...picks(Array.from({ length: 4000 }, (_, i) => i)), highest: 4000 }));
    expect(many.inputs[0].slice).toMatchObject({ exact: false });
  });

  it('counts what an index selects as enumeration does', () => {
    const values = Array.from({ length: 128 }, (_, i) => (i * 37) % 90);
    values[5] = 9004;
    values[9] = -2;
    const inside = values.filter(value => value >= 0 && value < 100);
    const all = { ...picks(values), highest: 99 };
    const found = gathered(all);
    expect(found.rows).toHaveLength(10);
    expect(found.rows[2]).toEqual({ place: 5, row: 9004, inside: false }); // two rows before it
    expect(found.distinct).toBe(new Set(inside).size);
    expect(found.outside).toBe(2);
    expect(found.repeated).toBe(
      [...new Set(inside)].filter(value => inside.indexOf(value) !== inside.lastIndexOf(value)).length,
    );
    expect(gathered(all, 500).rows[9].place).toBe(127);
    expect(gathered(picks([]))).toMatchObject({ rows: [], distinct: 0, outside: 0 });
  });

  it('takes progress from the cursor', () => {
    const motion = motionOf(runWith([LOAD]), 0);
    expect([0, 89_000, 356_000, 1e9].map(time => progress(motion, time))).toEqual([0, 0.25, 1, 1]);
    expect(progress({ ...motion, duration: 0 }, 0)).toBe(1);
  });

  it('of every awkward operand is words and no exception', () => {
    const run = runWith(
      VIEWS.map((_, view) => ({ lane: 1, start: view * 100, duration: 10, accesses: [[view, READ], [1, WRITE]] })),
    ); // prettier-ignore
    const said = VIEWS.map((_, step) => words(motionOf(run, step)));
    expect(said[4]).toContain('k_t[1, 188]');
    expect(said[6]).toContain('0 × 4');
    expect(said[7]).toContain('each element 8 times');
    expect(said[10]).toContain('address from a register');
    expect(said[11]).toContain('strange');
    expect(INDIRECTIONS).toHaveLength(4);
  });

  it('of an old recording has what there is', () => {
    const run = runWith([LOAD, product(400_000, WRITE)], {}, true);
    const motion = motionOf(run, 0);
    expect(motion.transfer).toBe(null);
    expect(motion.machine).toBe(null);
    expect(motion.inputs[0].name).toBe('');
    expect(motion.inputs[0].subscript).toBe('[:, 1536:2048]');
    expect(motionOf(run, 1).product).toBe(null);
  });

  it('keeps proportions up to eight to one', () => {
    expect(fitted(64, 128, { width: 100, height: 100 })).toEqual({ width: 100, height: 50, cut: false });
    expect(fitted(1, 1_000_000, { width: 100, height: 100 })).toMatchObject({ width: 100, height: 12.5, cut: true });
    expect(fitted(1_000_000, 1, { width: 100, height: 40 })).toMatchObject({ width: 5, height: 40, cut: true });
  });
});

/** Values that were kept: they answer at once, or when they are told to. */
class KeptIndices implements ValuesHost {
  readonly kept = [];
  readonly asked: (readonly [step: number, view: number, asker: string])[] = [];
  private last: (answer: IndicesAnswer) => void = () => undefined;

  constructor(
    private readonly picksOf: (view: number) => Picks | null,
    readonly isLive = false,
  ) {}

  indices(step: number, view: number, asker: string, answer: (answer: IndicesAnswer) => void): void {
    this.asked.push([step, view, asker]);
    this.last = answer;
    if (!this.isLive) this.answer();
  }
  answer(found = this.picksOf(this.asked.at(-1)![1]), reason = 'Its values were not pinned.', written = true): void {
    const [step, view] = this.asked.at(-1)!;
    if (found === null) this.last({ kind: 'none', reason });
    else this.last({ kind: 'indices', use: { ...found, view, steps: [step], written } });
  }
  say(answer: IndicesAnswer): void {
    this.last(answer);
  }
  ask(): void {
    throw new Error('Motion asks for indices only.');
  }
  findNonfinite(): void {
    throw new Error('Motion asks for indices only.');
  }
  pin(): void {
    throw new Error('Motion pins nothing.');
  }
  growth(): void {
    throw new Error('Motion asks for indices only.');
  }
  dispose(): void {
    // Nothing waits.
  }
}

describe('the motion view', () => {
  let store: OwnedStore;
  let view: MotionView;
  const spoken: string[] = [];

  function show(run: LoadedRun, values?: ValuesHost): HTMLElement {
    store = createStore(run);
    const context: Context = { run, store, palette: () => ({}) as Palette, speak: text => spoken.push(text), values };
    view = createMotion(context);
    document.body.append(view.element);
    view.draw(store.state, new Set(['step'] as const));
    return view.element;
  }

  function go(step: number): void {
    store.set({ step, time: 0 });
    view.draw(store.state, new Set(['step', 'time'] as const));
  }

  const button = (element: HTMLElement, label: string): HTMLButtonElement =>
    [...element.querySelectorAll('button')].find(item => item.getAttribute('aria-label')?.startsWith(label))!;

  beforeEach(() => {
    spoken.length = 0;
  });
  afterEach(() => {
    view.dispose();
    store.dispose();
    document.body.replaceChildren();
  });

  it('draws a transfer with its rate, links to who reads next, and takes names as text', () => {
    const element = show(runWith([LOAD, product(400_000, WRITE)]));
    expect(element.querySelector('b')).toBe(null);
    expect(element.textContent).toContain('<b>k</b>');
    expect(element.querySelector('.nki-mo-rate')!.textContent).toBe('184 GB/s');
    expect(element.querySelector('figcaption')!.textContent).toContain('64 runs of 1 KiB, 8 KiB apart');
    button(element, 'Next read by #2').click();
    expect(store.state.selected).toBe(1);
    go(1);
    expect(element.querySelectorAll('.nki-mo-operand')).toHaveLength(5); // two of them came from HBM
    expect(element.textContent).toContain('stationary · [:,\u00a0128:256]');
    expect(element.textContent).toContain('K 64 of 128');
    button(element, 'Written by #1').click();
    expect(store.state.selected).toBe(0);
  });

  it('fills what is written with the time that passes, and moves arrows only while playing', () => {
    const element = show(runWith([LOAD]));
    const cover = (): number => Number([...element.querySelectorAll('.nki-mo-cover')].at(-1)!.getAttribute('width'));
    const frame = Number([...element.querySelectorAll('.nki-mo-frame')].at(-1)!.getAttribute('width'));
    expect(cover()).toBe(0);
    store.set({ playing: true, time: 89_000 });
    view.draw(store.state, new Set(['time', 'playing'] as const));
    expect(cover()).toBeCloseTo(frame * 0.75, 6);
    expect(element.querySelector('.nki-mo-moving')).not.toBe(null);
    store.set({ playing: false, time: 400_000 });
    view.draw(store.state, new Set(['time', 'playing'] as const));
    expect(cover()).toBe(0);
    expect(element.querySelector('.nki-mo-moving')).toBe(null);
  });

  it('draws nothing again while only time passes, and nothing at all while it is hidden', () => {
    const element = show(runWith([LOAD, product(400_000, WRITE)]));
    const figure = element.querySelector('figure');
    view.draw(store.state, new Set(['time'] as const));
    expect(element.querySelector('figure')).toBe(figure);
    element.hidden = true;
    go(1);
    expect(element.querySelector('figure')).toBe(figure);
  });

  it('says what is missing: no operand, a step that is not loaded, no step', () => {
    const element = show(runWith([{ lane: 0, start: 0, duration: 5 }], { steps: 9 }));
    expect(element.textContent).toContain('nothing moves');
    go(7);
    expect(element.textContent).toContain('Step 8 is not loaded');
    go(-1);
    expect(element.textContent).toContain('No instruction is selected');
  });

  it('folds operands that are too many, and shows them all on demand', () => {
    const accesses = Array.from({ length: 40 }, (_, i) => [i % 5, READ] as const);
    const element = show(runWith([{ lane: 1, start: 0, duration: 5, accesses: [...accesses, [1, WRITE]] }]));
    expect(element.querySelectorAll('.nki-mo-operand').length).toBeLessThanOrEqual(4);
    const more = element.querySelector<HTMLElement>('.nki-mo-more')!;
    expect(more.textContent).toBe('+ 37 operands');
    more.click();
    const dialog = view.dialog;
    expect(dialog.open).toBe(true);
    expect(dialog.querySelectorAll('.nki-mo-operand')).toHaveLength(7);
    dialog.querySelector<HTMLElement>('.nki-mo-more')!.click();
    expect(dialog.querySelectorAll('.nki-mo-operand')).toHaveLength(33);
  });

  it('expands to patterns, bytes, descriptors and the curve, follows the step, and closes by key', () => {
    show(runWith([LOAD, product(400_000, WRITE)]));
    view.expand();
    const dialog = view.dialog;
    const text = dialog.textContent;
    for (const part of [
      'Access pattern',
      `4${THIN}096 el`,
      '8 KiB',
      '1 part',
      '1 KiB run',
      'stride 8 KiB',
      '8 of 16 idle',
      '42 % back to back',
      'together 21 % of 368 GB/s',
      '184 GB/s while its data move, 50 % of peak',
      'partitions 64–127 not used',
    ])
      expect(text).toContain(part);
    go(1);
    expect(dialog.textContent).toContain('PE array, 128 × 128');
    dialog.dispatchEvent(new KeyboardEvent('keydown', { key: 'x', bubbles: true, cancelable: true }));
    expect(dialog.open).toBe(false);
  });

  it('draws gathered rows where values are there, and every awkward view', () => {
    const rows = VIEWS.map((_, id) => ({
      lane: 2, start: id * 100, duration: 10, op: 0, bytes: 4, accesses: [[1, WRITE], [id, READ]],
    })) as Given[]; // prettier-ignore
    const values = new KeptIndices(view => (view === 8 ? picks([3, 3, 9004]) : null));
    show(runWith(rows), values);
    view.expand();
    for (let step = 0; step < VIEWS.length; step += 1) go(step);
    go(8);
    expect(view.dialog.textContent).toContain('1 distinct row, 1 read more than once, 1 of 3 outside of the tensor.');
  });

  const GATHER: Given = { lane: 2, start: 0, duration: 10, op: 0, bytes: 4, accesses: [[1, WRITE], [8, READ]] }; // prettier-ignore

  it('asks a kernel for the indices of the step where the cursor rests, once, and draws what it answers', () => {
    vi.useFakeTimers();
    const kernel = new KeptIndices(() => null, true);
    const rows = [GATHER, LOAD, { ...GATHER, start: 500 }, { ...GATHER, start: 900 }];
    const element = show(runWith(rows), kernel);
    expect(element.textContent).toContain('rows by ids, the kernel is asked for its values');
    go(2);
    go(1);
    vi.advanceTimersByTime(200);
    expect(kernel.asked).toEqual([]);
    go(2);
    vi.advanceTimersByTime(200);
    expect(kernel.asked).toEqual([[2, 8, '0']]);
    kernel.say({ kind: 'waiting', reason: 'The kernel is busy.' });
    expect(element.textContent).toContain('rows by ids, the kernel is busy');
    kernel.answer(picks([1, 70]));
    expect(element.querySelector('.nki-mo-outside-text')!.textContent).toBe(
      '1 of 2 outside of the tensor · rows by ids',
    );
    go(0);
    go(2);
    vi.advanceTimersByTime(200);
    expect(kernel.asked).toHaveLength(1); // step 0 was passed over, step 2 is known
    expect(element.textContent).toContain('1 of 2 outside');
    vi.useRealTimers();
  });

  it('takes no answer for another step, and never draws what nothing wrote', () => {
    vi.useFakeTimers();
    const kernel = new KeptIndices(() => null, true);
    const element = show(runWith([GATHER, LOAD, { ...GATHER, start: 500 }]), kernel);
    vi.advanceTimersByTime(200);
    go(1);
    const before = element.querySelector('figure');
    kernel.answer(picks([1]));
    expect(element.querySelector('figure')).toBe(before);
    go(2);
    vi.advanceTimersByTime(200);
    kernel.answer(picks([1, 2]), '', false);
    expect(element.textContent).toContain('rows by ids, it has elements that nothing wrote');
    view.expand();
    expect(element.querySelector('dialog .nki-mo-gather')).toBe(null);
    expect(view.dialog.textContent).toContain('It has elements that nothing wrote.');
    vi.useRealTimers();
  });

  it('asks nothing while playing, and when playing stops', () => {
    vi.useFakeTimers();
    const kernel = new KeptIndices(() => null, true);
    const run = runWith([LOAD, { ...GATHER, start: 500 }]);
    const element = show(run, kernel);
    store.set({ playing: true, step: 1 });
    view.draw(store.state, new Set(['step', 'playing'] as const));
    vi.advanceTimersByTime(500);
    expect(kernel.asked).toEqual([]);
    expect(element.textContent).toContain('follow when playing stops');
    store.set({ playing: false });
    view.draw(store.state, new Set(['playing'] as const));
    vi.advanceTimersByTime(500);
    expect(kernel.asked).toEqual([[1, 8, '0']]);
    vi.useRealTimers();
  });

  it('copies itself as text', async () => {
    const written: string[] = [];
    vi.stubGlobal('navigator', {
      clipboard: { writeText: (text: string) => Promise.resolve(void written.push(text)) },
    });
    const element = show(runWith([LOAD]));
    button(element, 'Copy').click();
    await Promise.resolve();
    await Promise.resolve();
    expect(spoken).toEqual(['Copied']);
    expect(written[0]).toContain('read <b>k</b>[:, 1536:2048] bfloat16 [[4096, 64], [1, 512]] + 1536');
    vi.unstubAllGlobals();
  });

  it('of an old recording is drawn', () => {
    show(runWith([LOAD, product(400_000, WRITE)], {}, true));
    view.expand();
    expect(view.dialog.textContent).toContain('Access pattern');
    go(1);
    expect(view.dialog.querySelectorAll('.nki-mo-operand').length).toBeGreaterThan(2);
  });
});
