// @vitest-environment node
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import type { ValuesAnswer, ValuesQuestion } from '../../src/types';
import { KeptValues, KernelValues } from '../../src/values_host';
import { valuesMessage, view } from './tiles';

const ASKED: ValuesQuestion = { step: 3, buffer: 1, when: 'after', against: '', excerpt: [0, 0] };
interface Sent {
  readonly kind: string;
  readonly request: number;
  readonly step: number;
  readonly until?: number;
}

let sent: Sent[];
let got: ValuesAnswer[];
let gone: boolean;
/** Whether the connection takes nothing any more, though the kernel is not known to be dead. */
let isClosed: boolean;
let host: KernelValues;
const take = (answer: ValuesAnswer): void => void got.push(answer);

beforeEach(() => {
  vi.useFakeTimers();
  [sent, got, gone, isClosed] = [[], [], false, false];
  host = new KernelValues(
    content => !isClosed && sent.push(content as Sent) > 0,
    () => gone,
  );
});
afterEach(() => {
  host.dispose();
  vi.useRealTimers();
});

describe('questions to a kernel', () => {
  test('go out one at a time, and only the newest is answered', () => {
    for (const step of [1, 2, 3]) host.ask({ ...ASKED, step }, take);
    expect(sent.map(item => item.step)).toEqual([1]);
    host.receive({ request: sent[0].request }, view(valuesMessage({ rows: [[1]] })));
    expect(got).toEqual([]);
    expect(sent.map(item => item.step)).toEqual([1, 3]);
    host.receive({ request: sent[1].request }, view(valuesMessage({ rows: [[7]] })));
    expect(got).toHaveLength(1);
    expect(got[0]).toMatchObject({ kind: 'tile', pinned: false });
  });

  test('of several askers are all answered, of each the newest', () => {
    const found: string[] = [];
    const indices = (step: number, asker: string): void =>
      host.indices(step, 9, asker, answer => {
        found.push(answer.kind === 'indices' ? `${asker}${step}: ${answer.use.values.join()}` : answer.kind);
      });
    indices(1, 'a');
    for (const step of [2, 3]) {
      host.ask({ ...ASKED, step }, take);
      indices(step, 'a');
      indices(step, 'b');
    }
    const use = { view: 9, steps: [0], written: true, stride: 1, lowest: 0, highest: 3 };
    for (let at = 0; at < 5; at += 1)
      host.receive({ request: sent[at]?.request, ...use, values: [at] }, view(valuesMessage({ rows: [[1]] })));
    expect(sent.map(({ kind, step }) => `${kind} ${step}`)).toEqual([
      'indices 1',
      'values 3',
      'indices 3',
      'indices 3',
    ]);
    expect(found).toEqual(['a3: 2', 'b3: 3']);
    expect(got).toHaveLength(1);
  });

  test('of all askers are told that the kernel is busy, or gone', () => {
    const found: string[] = [];
    host.ask(ASKED, take);
    host.indices(1, 9, '0', answer => found.push(answer.kind));
    vi.advanceTimersByTime(2000);
    gone = true;
    vi.advanceTimersByTime(2000);
    expect(got.map(item => item.kind)).toEqual(['waiting', 'none']);
    expect(found).toEqual(['waiting', 'none']);
    vi.advanceTimersByTime(10_000);
    expect(found).toHaveLength(2);
  });

  test('of a search that goes on let others through', () => {
    host.findNonfinite(5, () => undefined);
    host.ask(ASKED, take);
    host.receive({ request: sent[0].request, step: -1, until: 900 }, undefined);
    host.receive({ request: sent[1].request, reason: 'No.' }, undefined);
    expect(sent.map(item => item.kind)).toEqual(['nonfinite', 'values', 'nonfinite']);
  });

  test('take no answer of another question', () => {
    host.ask(ASKED, take);
    expect(host.receive({ request: sent[0].request + 5 }, undefined)).toBe(false);
    expect(got).toEqual([]);
  });

  test('say when the kernel is busy, and still take the answer', () => {
    host.ask(ASKED, take);
    vi.advanceTimersByTime(2000);
    expect(got).toEqual([{ kind: 'waiting', reason: expect.stringContaining('busy') as string }]);
    host.receive({ request: sent[0].request, reason: 'Nothing.' }, undefined);
    expect(got[1]).toEqual({ kind: 'none', reason: 'Nothing.' });
  });

  test('say when the kernel died, before or after they went out', () => {
    host.ask(ASKED, take);
    gone = true;
    vi.advanceTimersByTime(2000);
    expect(got).toEqual([{ kind: 'none', reason: expect.stringContaining('kernel is gone') as string }]);
    host.ask(ASKED, take);
    expect(got).toHaveLength(2);
    expect(sent).toHaveLength(1);
  });

  test('say that the kernel is gone where the connection takes nothing', () => {
    isClosed = true;
    host.ask(ASKED, take);
    expect(got).toEqual([{ kind: 'none', reason: expect.stringContaining('kernel is gone') as string }]);
    isClosed = false;
    host.ask(ASKED, take);
    expect(sent).toHaveLength(1);
  });

  test('are answered with what is wrong about a damaged message', () => {
    host.ask(ASKED, take);
    host.receive({ request: sent[0].request }, view(new ArrayBuffer(3)));
    expect(got[0]).toMatchObject({ kind: 'none' });
  });

  test('for NaN go on where the kernel paused', () => {
    const found: (number | string)[] = [];
    host.findNonfinite(5, answer => found.push(answer));
    host.receive({ request: sent[0].request, step: -1, until: 900 }, undefined);
    expect(sent[1]).toMatchObject({ kind: 'nonfinite', step: 5, until: 900 });
    host.receive({ request: sent[1].request, step: 12, until: -1 }, undefined);
    expect(found).toEqual([12]);
  });

  test('for the growth of errors get curve or reason', () => {
    const found: unknown[] = [];
    host.growth(answer => found.push(answer));
    host.receive({ request: sent[0].request, steps: [0], errors: [0.1], tolerance: 1, first: -1, text: 'fine' }, undefined);
    host.growth(answer => found.push(answer));
    host.receive({ request: sent[1].request, reason: 'No.' }, undefined);
    expect(found).toEqual([{ steps: [0], errors: [0.1], tolerance: 1, first: -1, text: 'fine' }, 'No.']);
  }); // prettier-ignore

  test('end with the view', () => {
    host.ask(ASKED, take);
    host.dispose();
    vi.advanceTimersByTime(10_000);
    expect(host.receive({ request: sent[0].request }, undefined)).toBe(false);
    expect(got).toEqual([]);
  });
});

describe('values that a notebook keeps', () => {
  test('are those nearest to the step; what is damaged is left out', async () => {
    vi.useRealTimers();
    const kept = new KeptValues();
    const pack = async (step: number): Promise<string> => {
      const bytes = valuesMessage({ rows: [[step]], header: { buffer: 1, step } });
      const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'));
      return btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())));
    };
    await kept.add([await pack(2), '!!', 7, await pack(9)]);
    expect(kept.kept).toEqual([
      { buffer: 1, step: 2 },
      { buffer: 1, step: 9 },
    ]);
    kept.ask({ ...ASKED, step: 8 }, take);
    kept.ask({ ...ASKED, buffer: 4 }, take);
    expect(got[0]).toMatchObject({ kind: 'tile', pinned: true, tile: { header: { step: 9 } } });
    expect(got[1]).toMatchObject({ kind: 'none', reason: expect.stringContaining('need the kernel') as string });
  });

  test('have indices for the steps that take them, and for no others', async () => {
    vi.useRealTimers();
    const kept = new KeptValues();
    const use = { view: 9, steps: [4, 6], values: [1, 2], written: true, stride: 1, lowest: 0, highest: 3 };
    const bytes = valuesMessage({ rows: [[1]], header: { indices: [use] } });
    const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate'));
    await kept.add([btoa(String.fromCharCode(...new Uint8Array(await new Response(stream).arrayBuffer())))]);
    const found: string[] = [];
    for (const [step, operand] of [
      [4, 9],
      [6, 9],
      [5, 9],
      [4, 8],
    ] as const)
      // prettier-ignore
      kept.indices(step, operand, '', answer => found.push(answer.kind));
    expect(found).toEqual(['indices', 'indices', 'none', 'none']);
  });
});
