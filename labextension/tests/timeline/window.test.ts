import { describe, expect, test } from 'vitest';

import type { Palette } from '../../src/types';
import { aggregates, busiest } from '../../src/views/timeline/area';
import { colouring } from '../../src/views/timeline/colour';
import { dmaBytes, rateCurve, usageCurve } from '../../src/views/timeline/counters';
import { densities, dragged, windowText } from '../../src/views/timeline/overview';
import { anchorOf, around, panned, timeOf, wheelFactor, xOf, zoomed } from '../../src/views/timeline/zoom';
import { awaitedWords, waitLabel } from '../../src/views/timeline/words';
import { jagged, QUEUE, runOf, TENSOR, VECTOR } from './runs';

describe('a window', () => {
  test('zooms about a time that stays where it is', () => {
    const scale = { from: 100, to: 300, width: 1000 };
    const next = { ...zoomed(scale, 150, 0.5), width: 1000 };
    expect(xOf(next, 150)).toBeCloseTo(xOf(scale, 150));
    expect(next.to - next.from).toBe(100);
    expect(timeOf(next, xOf(next, 120))).toBeCloseTo(120);
  });

  test('is panned without being stretched', () => {
    expect(panned({ from: 1, to: 3 }, 10)).toEqual({ from: 11, to: 13 });
  });

  test('around a range gives it its share', () => {
    expect(around({ from: 100, to: 160 }, 0.6)).toEqual({ from: 80, to: 180 });
  });

  test('is zoomed by keys about the cursor if that is seen', () => {
    expect([anchorOf({ from: 0, to: 10 }, 7), anchorOf({ from: 0, to: 10 }, 70)]).toEqual([7, 5]);
  });

  test('is zoomed by a notch of the wheel by 1.25, whatever the wheel counts in', () => {
    expect([wheelFactor(100, 0), wheelFactor(3, 1), wheelFactor(-100, 0)]).toEqual([1.25, 1.25, 0.8]);
    expect(wheelFactor(100_000, 0)).toBeCloseTo(1.25 ** 4);
  });

  test('keeps its least width when a handle is drawn over the other', () => {
    expect(dragged({ from: 10, to: 20 }, 'left', 100, 2)).toEqual({ from: 18, to: 20 });
    expect(dragged({ from: 10, to: 20 }, 'right', -100, 2)).toEqual({ from: 10, to: 12 });
    expect(dragged({ from: 10, to: 20 }, 'window', 5, 2)).toEqual({ from: 15, to: 25 });
  });

  test('is told with its unit once, or twice if there are two', () => {
    expect(windowText({ from: 25e6, to: 41e6 })).toBe('25.00 to 41.00 µs');
    expect(windowText({ from: -1e6, to: 41e6 })).toBe('0 to 41.00 µs');
    expect(windowText({ from: 800e3, to: 1.5e6 })).toBe('800 ns to 1.50 µs');
  });
});

describe('the overview', () => {
  test('adds up exactly what each hue works', () => {
    const rows = [...jagged(500, 1, TENSOR), ...jagged(200, 2, VECTOR), ...jagged(300, 3, QUEUE)];
    const run = runOf(rows.sort((one, other) => one.start - other.start));
    const found = densities(run, 333);
    expect(found.map(density => density.hue)).toEqual(['tensor', 'vector', 'dma']);
    for (const [at, lane] of [TENSOR, VECTOR, QUEUE].entries()) {
      const busy = rows.filter(row => row.lane === lane).reduce((sum, row) => sum + row.duration, 0);
      const sum = found[at].shares.reduce((total, share) => total + share, 0);
      expect((sum * run.makespan) / 333).toBeCloseTo(busy, 3);
    }
  });
});

describe('a marked range', () => {
  const run = runOf([
    { lane: TENSOR, start: 100, duration: 100, wait: 100, setup: 20, stall: 1, setupStall: 3 },
    { lane: VECTOR, start: 150, duration: 20, iteration: 1 },
    { lane: TENSOR, start: 300, duration: 100, wait: 100, stall: 1, iteration: 1 },
    { lane: TENSOR, start: 400, duration: 100, iteration: 2 },
  ]);

  test('counts what starts in it and shares what one lane did', () => {
    const told = aggregates(run, { from: 50, to: 350 }, TENSOR);
    expect(told).toMatchObject({ instructions: 3, label: 'Tensor' });
    expect(told.busy).toBeCloseTo(150 / 300);
    expect(told.waiting).toBeCloseTo(150 / 300);
  });

  test('names every engine that executes in it, whichever it was drawn on', () => {
    const { shares } = aggregates(run, { from: 50, to: 350 }, VECTOR);
    expect(shares).toEqual([
      { label: 'Tensor', share: 150 / 300 },
      { label: 'Vector', share: 20 / 300 },
    ]);
    expect(aggregates(run, { from: 210, to: 290 }, VECTOR).shares).toEqual([]);
  });

  test('tells waits by the hue of what they were for, cut to the range', () => {
    const { waits } = aggregates(run, { from: 50, to: 350 }, TENSOR);
    expect(waits.map(({ hue, share }) => [hue, Math.round(share * 300)])).toEqual([
      ['dma', 130],
      ['scalar', 20],
    ]);
  });

  test('is of the engine that works most in it, if no other was chosen', () => {
    expect(busiest(run, { from: 150, to: 160 })).toBe(TENSOR);
    expect(busiest(run, { from: 0, to: 100 })).toBe(TENSOR);
  });

  test('names the loop iteration that all of it lies in', () => {
    expect(aggregates(run, { from: 290, to: 500 }, TENSOR).iteration).toBe('i = 1');
    expect(aggregates(run, { from: 290, to: 350 }, TENSOR).iteration).toBe('i = 1, j = 3');
  });
});

describe('curves', () => {
  test('of memory are drawn to the largest value of the whole run', () => {
    const run = runOf([{ start: 0, duration: 1000 }], {
      usage: [
        [0, 100, 0],
        [400, 400, 0],
        [600, 200, 0],
      ],
    });
    const curve = usageCurve(run, 'sbuf', 0, { from: 500, to: 1000, width: 100 });
    expect([curve.top, curve.most]).toEqual([400, 400]);
    expect([...curve.points]).toEqual([0, 1, 20, 0.5]);
    expect(usageCurve(run, 'psum', 0, { from: 0, to: 1000, width: 100 }).top).toBe(0);
  });

  test('of DMA give the bytes of transfers evenly over their time', () => {
    const run = runOf([{ lane: QUEUE, start: 0, duration: 1000 }, { lane: QUEUE, start: 2000, duration: 0 }]); // prettier-ignore
    run.rows.bytes.set([4000, 100]);
    expect([dmaBytes(run, 0, 500), dmaBytes(run, 250, 750), dmaBytes(run, 0, 3000)]).toEqual([2000, 2000, 4100]);
    const curve = rateCurve(run, { from: 0, to: 1000, width: 40 });
    expect(curve.most).toBeCloseTo(4e12);
    expect(curve.points[1]).toBeCloseTo(1);
  });
});

describe('colours', () => {
  const palette = {
    hue: { tensor: '#111111', vector: '#222222', dma: '#333333', sync: '#444444' },
    onHue: { tensor: '#FFFFFF', vector: '#FFFFFF', dma: '#000000', sync: '#000000' },
    faint: '#999999',
    tints: Array.from({ length: 8 }, (_, at) => `#0000${at}${at}`),
  } as unknown as Palette;
  const rows = [
    { lane: QUEUE, start: 0, duration: 10, accesses: [[0, 1]] as const },
    { lane: TENSOR, start: 20, duration: 10, accesses: [[1, 1], [0, 0]] as const, site: 0 }, // prettier-ignore
  ];
  const run = runOf(rows);

  test('are of the lane, or tints of the largest classes with grey for the rest', () => {
    expect([0, 1].map(colouring(run, 'engine', palette).of)).toEqual(['#333333', '#111111']);
    const lines = colouring(run, 'line', palette);
    expect([0, 1].map(lines.of)).toEqual(['#999999', '#000000']);
    expect(lines.keys).toEqual([{ label: 'line 1', colour: '#000000' }]);
  });

  test('by tensor are of what a row writes, by op of its name', () => {
    const tensors = colouring(run, 'tensor', palette);
    expect(tensors.keys.map(key => key.label)).toEqual(['out', 'k']);
    expect([tensors.of(0), tensors.of(1)]).toEqual(['#000011', '#000000']);
    expect(colouring(run, 'op', palette).keys.map(key => key.label)).toEqual(['nc_matmul']);
  });

  test('of labels are those that are read on them', () => {
    expect(colouring(run, 'engine', palette).on('#333333')).toBe('#000000');
  });
});

describe('words of waits', () => {
  const run = runOf([
    { lane: QUEUE, start: 0, duration: 10, accesses: [[0, 1]] },
    { lane: TENSOR, start: 20, duration: 10, wait: 20, setup: 5, stall: 1, setupStall: 3, after: 0, accesses: [[1, 1], [0, 0]] }, // prettier-ignore
  ]);

  test('name the tile that was awaited', () => {
    expect([awaitedWords(run, 1, 1), waitLabel(run, 1, 1)]).toEqual(['k', 'waits k']);
  });

  test("have no verb for a lane's own preparation", () => {
    expect(waitLabel(run, 1, 3)).toBe('table load');
  });
});
