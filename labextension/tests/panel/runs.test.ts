import { describe, expect, it, vi } from 'vitest';

import { ABOUT_MIME, MIME } from '../../src/_generated/schema';
import { editedSources } from '../../src/host';
import type { NotebookPanel } from '../../src/panel/jupyter';
import { changeOf } from '../../src/panel/list';
import { KEPT, LISTED, NotebookRuns } from '../../src/panel/runs';
import { Awake } from '../../src/saved/resting';
import { aboutRuns, pictureOf, savedRuns, timeOf, type Bundle } from '../../src/saved/runs';
import type { RunAbout } from '../../src/_generated/schema';

const about = (makespan: number, more: object = {}): object => ({
  kernel: 'k', target: 'trn2', makespan, instructions: 4, failed: false, times: 1, ...more,
}); // prettier-ignore

function signal(): {
  connect(slot: () => void): boolean;
  disconnect(slot: () => void): boolean;
  emit(value?: unknown): void;
} {
  const slots = new Set<(sender: unknown, value: unknown) => void>();
  return {
    connect: slot => (slots.add(slot), true),
    disconnect: slot => slots.delete(slot),
    emit: value => slots.forEach(slot => slot(null, value)),
  };
}

/** A notebook of one cell, which shows outputs when it is told. */
function notebook(): { panel: NotebookPanel; show: (...outputs: Bundle[]) => void } {
  let outputs: Bundle[] = [];
  const changed = signal();
  const cell = {
    type: 'code', id: 'one', executionCount: 3,
    outputs: { get length() { return outputs.length; }, get: (at: number) => ({ data: outputs[at] }), changed },
    sharedModel: { changed: signal(), getSource: () => 'x' },
  }; // prettier-ignore
  const cells = Object.assign([cell], { changed: signal() });
  return {
    panel: { context: { model: { cells } } } as unknown as NotebookPanel,
    show(...next) {
      outputs = next;
      changed.emit();
      vi.runAllTimers();
    },
  };
}

let messages = 0;
const output = (makespan: number): Bundle => ({
  [MIME]: { version: 1, message: `m${(messages += 1)}` },
  [ABOUT_MIME]: [about(makespan)],
  'image/png': 'AAAA',
});

describe('the time of a run in a list', () => {
  it('has its interval where that is known', () => {
    const timed = (more: object): string => timeOf(about(2_710_000, more) as RunAbout);
    expect(timed({ interval: [2_190_000, 3_271_000] })).toBe('2.71 µs, 2.19 to 3.27');
    expect(timed({})).toBe('2.71 µs');
    expect(timed({ interval: [2_190_000, 3_271_000], failed: true })).toBe('stopped');
  });
});

describe('the runs of a notebook', () => {
  it('are those that cells show and showed, with the one before', () => {
    vi.useFakeTimers();
    const { panel, show } = notebook();
    const runs = new NotebookRuns(panel);
    const told = vi.fn();
    runs.listen(told);
    show(output(100));
    const several: Bundle = {
      [MIME]: { version: 1, message: 'last', earlier: [{ version: 1, message: 'first' }] },
      [ABOUT_MIME]: [about(50), about(80)],
    };
    show(several);
    show(several);
    expect(told).toHaveBeenCalledTimes(2);
    expect(runs.runs.map(run => [run.about?.makespan, run.index, run.isShown])).toEqual([
      [100, 0, false],
      [50, 0, true],
      [80, 1, true],
    ]);
    expect(runs.before(runs.latest!)).toBe(runs.runs[1]);
    expect(runs.ofCell('one')).toHaveLength(2);
    runs.dispose();
    vi.useRealTimers();
  });

  it('are bounded: of old ones the picture is kept, then nothing', () => {
    vi.useFakeTimers();
    const { panel, show } = notebook();
    const runs = new NotebookRuns(panel);
    for (let number = 0; number < 100; number += 1) show(output(number + 1));
    expect(runs.runs).toHaveLength(LISTED);
    expect(runs.runs.filter(run => MIME in run.bundle)).toHaveLength(KEPT + 1);
    expect(pictureOf(runs.runs[0].bundle)).toBe('data:image/png;base64,AAAA');
    runs.dispose();
    vi.useRealTimers();
  });
});

describe('a change', () => {
  const of = (makespan: number, more?: object): never => ({ about: about(makespan, more) }) as never;
  it.each([
    [of(50), of(100), 'faster', '\u221250\u00a0%'],
    [of(110), of(100), 'slower', '+10\u00a0%'],
    [of(100), of(100), 'same', 'same'],
    [of(50), of(100, { target: 'trn1' }), 'none', '\u221250\u00a0% to trn1'],
    [of(50), of(100, { failed: true }), 'none', 'runs again'],
    [of(50), null, 'none', ''],
  ])('of %j from %j is %s', (run, before, kind, text) => {
    const change = changeOf(run, before);
    expect([change.kind, change.text.replaceAll(/\s/g, '\u00a0')]).toEqual([kind, text.replaceAll(/\s/g, '\u00a0')]);
  });
});

describe('what an output keeps', () => {
  it.each([
    [{}, 0],
    [{ [MIME]: null }, 1],
    [{ [MIME]: { earlier: 7 } }, 1],
    [{ [MIME]: { earlier: [null, {}] } }, 2],
    [{ [ABOUT_MIME]: 'x' }, 0],
    [{ [ABOUT_MIME]: [{}, about(1)] }, 2],
  ])('of %j are so many runs', (bundle, count) => {
    expect(aboutRuns(bundle)).toHaveLength(count);
    if (MIME in bundle) expect(savedRuns(bundle)).toHaveLength(count);
  });

  it('is no picture unless it is one', () => {
    expect(pictureOf({ 'image/png': 'AA\nAA' })).toBe('data:image/png;base64,AAAA');
    expect(pictureOf({ 'image/png': '"><script>' })).toBe('');
    expect(pictureOf({})).toBe('');
  });
});

describe('many visualizers', () => {
  it('rest, the one that was used the longest ago first', () => {
    const rested: number[] = [];
    const awake = new Awake(2);
    const made = [0, 1, 2].map(number => ({ node: document.createElement('div'), rest: () => rested.push(number) }));
    awake.use(made[0]);
    awake.use(made[1]);
    awake.use(made[0]);
    awake.use(made[2]);
    expect(rested).toEqual([1]);
    expect(awake.count).toBe(2);
  });
});

describe('the sources of a run', () => {
  const run = (text: string, path = 'Cell In[3]'): never => ({ sources: [{ path, text }] }) as never;
  it.each([
    ['# %%nki --target trn2\nx = 1\n', 'Cell In[3]', ['%%nki --target trn2\nx = 1'], 0],
    ['# %%nki\nx = 1\n', 'Cell In[3]', ['%%nki\nx = 2'], 1],
    ['x = 1  \n', 'Cell In[3]', ['y = 2', 'x = 1'], 0],
    ['x = 1', 'kernels.py', ['y'], 0],
    ['get_ipython().run_line_magic("time", "")\nx = 1', 'Cell In[1]', ['y'], 0],
    ['', 'Cell In[1]', ['y'], 0],
  ])('%j of %s: %j leaves %i of them behind', (text, path, cells, count) => {
    expect(editedSources(run(text, path), cells).size).toBe(count);
  });
});
