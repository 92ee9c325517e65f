import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { LINE_EVENT, tellLines } from '../src/line_event';
import { createStore } from '../src/store';
import type { OwnedStore } from '../src/store';
import { shellRun } from './shell_runs';

let frame: HTMLElement;
let canvas: HTMLElement;
let store: OwnedStore;
let told: unknown[];
let end: () => void;

beforeEach(() => {
  const run = shellRun();
  store = createStore(run);
  frame = document.createElement('section');
  canvas = document.createElement('canvas');
  frame.append(canvas, document.createElement('button'));
  document.body.append(frame);
  told = [];
  document.addEventListener(LINE_EVENT, note);
  end = tellLines(frame, run, store);
});
afterEach(() => {
  end();
  document.removeEventListener(LINE_EVENT, note);
  frame.remove();
});

function note(event: Event): void {
  told.push((event as CustomEvent).detail);
}

describe('the lines of clicks', () => {
  it('are told to the page', () => {
    store.select(1);
    canvas.click();
    expect(told).toEqual([{ path: 'kernel.py', line: 4 }]);
  });

  it('are told again by what stands for a line, and not by a button that changes none', () => {
    store.select(1);
    canvas.click();
    canvas.click();
    frame.querySelector('button')?.click();
    expect(told).toHaveLength(2);
  });

  it('are not those of steps that the keyboard takes', () => {
    store.select(1);
    store.goToStep(2);
    expect(told).toEqual([]);
  });

  it('end with the run', () => {
    end();
    store.select(1);
    canvas.click();
    expect(told).toEqual([]);
  });
});
