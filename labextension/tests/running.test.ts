import { beforeEach, describe, expect, test, vi } from 'vitest';

import { followRun } from '../src/following_run';
import { createRunningBar, seconds } from '../src/running';
import type { RunState } from '../src/running';
import type { Visualizer } from '../src/visualizer';

const STATE: RunState = {
  state: 'running',
  kernel: 'softmax',
  target: 'trn2',
  phase: 'numerics',
  done: 5_600_000,
  total: 9_900_000,
  elapsed: 18,
  left: 14.2,
  rate: 312_000,
  until: null,
  cancels: false,
};

const textOf = (element: Element): string => (element.textContent ?? '').replace(/\s+/g, ' ').trim();
const button = (element: Element): HTMLButtonElement => element.querySelector<HTMLButtonElement>('.nki-cancel')!;

describe('the bar of a run', () => {
  beforeEach(() => vi.useFakeTimers());

  test('says share, phase, time left and counts', () => {
    const made = bar();
    made.draw(STATE);
    expect(textOf(made.element)).toContain('softmax57 %numerics · 14 s left18 sCancelEsc');
    expect(textOf(made.element)).toContain('5.6 of 9.9 M instructions, 312 k/s');
    expect(made.element.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow')).toBe('57');
  });

  test('of an unknown length has no share', () => {
    const made = bar();
    made.draw({ ...STATE, phase: 'specialising', total: null, left: null, rate: null, done: 300 });
    expect(textOf(made.element)).toContain('specialising');
    expect(textOf(made.element)).toContain('300 instructions');
    expect(textOf(made.element)).not.toContain('%');
    expect(made.element.querySelector('[role=progressbar]')?.hasAttribute('aria-valuenow')).toBe(false);
  });

  test('says what can be used as soon as something is drawn', () => {
    const made = bar();
    made.draw({ ...STATE, until: 17 });
    expect(textOf(made.element)).toContain('Zoom and step work in what is here');
    expect(textOf(made.element)).not.toContain('softmax'); // the header below has it
  });

  test('interrupts the kernel once, by button or Escape', () => {
    const interrupt = vi.fn(() => Promise.resolve());
    const made = bar(interrupt);
    made.draw(STATE);
    made.element.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    button(made.element).click();
    expect(interrupt).toHaveBeenCalledTimes(1);
    expect(button(made.element).disabled).toBe(true);
    expect(textOf(button(made.element))).toBe('Cancelling');
  });

  test('says why the kernel could not be interrupted, and lets try again', async () => {
    const made = bar(() => Promise.reject(new Error('404')));
    made.draw(STATE);
    button(made.element).click();
    await vi.runAllTimersAsync();
    expect(textOf(made.element)).toContain('The kernel could not be interrupted: Error: 404');
    expect(button(made.element).disabled).toBe(false);
  });

  test('asks a kernel that the page cannot interrupt', () => {
    const ask = vi.fn(() => true);
    const made = bar(null, ask);
    made.draw(STATE);
    button(made.element).click();
    expect(ask).toHaveBeenCalledTimes(1);
    made.draw({ ...STATE, state: 'cancelling', cancels: true });
    vi.advanceTimersByTime(5000);
    expect(textOf(made.element)).not.toContain('reads no messages');
  });

  test('says what to do where the kernel does not hear', () => {
    const made = bar(null, () => true);
    made.draw(STATE);
    button(made.element).click();
    vi.advanceTimersByTime(5000);
    expect(textOf(made.element)).toContain('This kernel reads no messages while it runs');
    expect(textOf(made.element)).toContain('press Ctrl+C');
    expect(button(made.element).disabled).toBe(false);
  });

  test('of a cancelled run cancels nothing', () => {
    const interrupt = vi.fn(() => Promise.resolve());
    const made = bar(interrupt);
    made.draw({ ...STATE, state: 'cancelled' });
    made.cancel();
    expect(interrupt).not.toHaveBeenCalled();
    expect(button(made.element).hidden).toBe(true);
    expect(textOf(made.element)).toContain('cancelled');
  });
});

function bar(
  interrupt: (() => Promise<unknown>) | null = null,
  ask: () => boolean = () => false,
): ReturnType<typeof createRunningBar> {
  return createRunningBar({ interrupt, ask });
}

describe('following a run', () => {
  test('draws what the model says, until its kernel is gone', () => {
    const listeners = new Map<string, () => void>();
    const slots: ((sender: unknown, status: string) => void)[] = [];
    let live = STATE;
    const model = {
      get: () => live,
      on: (event: string, listener: () => void) => void listeners.set(event, listener),
      off: (event: string) => void listeners.delete(event),
      widget_manager: {
        kernel: {
          interrupt: () => Promise.resolve(),
          statusChanged: {
            connect: (slot: (sender: unknown, status: string) => void) => slots.push(slot),
            disconnect: () => slots.splice(0),
          },
        },
      },
    };
    const told: (number | null)[] = [];
    let element = document.createElement('div');
    const visualizer = {
      setRunning: (bar: HTMLDivElement) => void (element = bar),
      setDoneUntil: (time: number | null) => void told.push(time),
      setNotice: () => undefined,
    } as unknown as Visualizer;
    const end = followRun(model, visualizer, () => true);
    live = { ...STATE, done: 9_900_000, until: 99 };
    listeners.get('change:live')?.();
    expect(told).toEqual([null, 99]);
    slots[0]?.(null, 'busy');
    expect(textOf(element)).toContain('100 %');
    slots[0]?.(null, 'restarting');
    expect(textOf(element)).toContain('The kernel was restarted, and the run ended with it. Run the cell again.');
    expect(textOf(element)).toContain('What is drawn stays');
    expect(button(element).hidden).toBe(true);
    end();
    expect([listeners.size, slots.length]).toEqual([0, 0]);
  });
});

test('seconds are short', () => {
  expect([0.44, 9.96, 14.2, 125].map(seconds)).toEqual(['0.4 s', '10.0 s', '14 s', '2 min 05 s']);
});
