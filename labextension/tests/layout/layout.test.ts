import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { heightFor, scrollerOf } from '../../src/layout/fitting';
import { rememberedFolds, rememberFolds, toggled, without } from '../../src/layout/parts';
import { createScreen } from '../../src/layout/screen';
import { mount } from '../../src/visualizer';
import { shellRun } from '../shell_runs';
import { fakeScreen } from '../timeline/screen';

beforeEach(() => localStorage.clear());
afterEach(() => vi.unstubAllGlobals());

describe('what is folded', () => {
  it('is remembered by the browser', () => {
    rememberFolds(new Set(['moment', 'timeline'] as const));
    expect([...rememberedFolds()]).toEqual(['timeline', 'moment']);
  });

  it.each(['{', 'null', '7', '{"version":1}', '{"version":1,"folded":7}', '{"version":2,"folded":["timeline"]}'])(
    'is nothing where the browser kept %s',
    kept => {
      localStorage.setItem('nki-lab.layout', kept);
      expect(rememberedFolds().size).toBe(0);
    },
  );

  it('leaves out parts that there are not', () => {
    localStorage.setItem('nki-lab.layout', '{"version":1,"folded":["roof","panels"]}');
    expect([...rememberedFolds()]).toEqual(['panels']);
  });

  it('is nothing where the page may keep nothing', () => {
    vi.stubGlobal('localStorage', {
      getItem: () => {
        throw new Error('denied');
      },
      setItem: () => {
        throw new Error('denied');
      },
    });
    expect(() => rememberFolds(new Set())).not.toThrow();
    expect(rememberedFolds().size).toBe(0);
  });

  it('changes one part at a time, and only where it is another', () => {
    const folded = toggled(new Set(), 'panels');
    expect([...folded]).toEqual(['panels']);
    expect(without(folded, 'timeline')).toBe(folded);
    expect([...without(folded, 'panels')]).toEqual([]);
  });
});

describe('the height of the views', () => {
  it.each([
    ['as high as the window allows', { above: 480, content: 600, room: 1000, fills: false }, 460],
    ['as high as the content asks for', { above: 480, content: 500, room: 2000, fills: false }, 500],
    ['no higher than is of use', { above: 480, content: 5000, room: 4000, fills: false }, 720],
    ['high enough to be read', { above: 480, content: 600, room: 500, fills: false }, 228],
    ['what is left of a panel', { above: 300, content: 100, room: 1000, fills: true }, 700],
  ])('is %s', (_, measured, height) => {
    expect(heightFor(measured)).toBe(height);
  });
});

describe('the room of a view', () => {
  const nested = (
    ...boxes: readonly (readonly [client: number, scroll: number, maxHeight?: string])[]
  ): HTMLElement[] => {
    const made = boxes.map(([client, scroll, maxHeight = '']) => {
      const box = document.createElement('div');
      Object.assign(box.style, { overflowY: 'auto', maxHeight });
      Object.defineProperties(box, { clientHeight: { value: client }, scrollHeight: { value: scroll } });
      return box;
    });
    made.forEach((box, at) => (made[at - 1] ?? document.body).append(box));
    return made;
  };

  afterEach(() => document.body.replaceChildren());

  it('is what scrolls, not the outputs in it that are as high as the view', () => {
    const [notebook, , root] = nested([1500, 3000], [746, 746], [744, 744]);
    expect(scrollerOf(root)).toBe(notebook);
  });

  it('is that of outputs that have a height of their own', () => {
    const [, output, root] = nested([1500, 1500], [400, 400, '400px'], [300, 300]);
    expect(scrollerOf(root)).toBe(output);
  });

  it('is the window where nothing scrolls', () => {
    const [, root] = nested([1500, 1500], [744, 744]);
    expect(scrollerOf(root)).toBeNull();
  });
});

describe('the buttons of a visualizer', () => {
  it('fold its parts, as further ones will be', () => {
    vi.useFakeTimers();
    fakeScreen(1200);
    const root = document.createElement('div');
    document.body.append(root);
    const drawn = mount(root, shellRun());
    vi.advanceTimersByTime(60);
    const hidden = (slot: string): unknown => root.querySelector<HTMLElement>(`.nki-slot-${slot}`)!.hidden;
    const fold = (part: string): void => {
      root.querySelector<HTMLElement>(`.nki-fold-${part}`)!.click();
      vi.advanceTimersByTime(60);
    };
    fold('timeline');
    expect([hidden('timeline'), hidden('memory')]).toEqual([true, false]);
    fold('panels');
    expect([hidden('source'), hidden('motion')]).toEqual([true, false]);
    fold('moment');
    expect([hidden('memory'), hidden('motion'), hidden('source')]).toEqual([true, true, true]);
    const other = mount(document.body.appendChild(document.createElement('div')), shellRun());
    expect(other.store?.state.away).toEqual(new Set(['timeline', 'moment', 'panels']));
    // What is asked for is shown.
    root.querySelector<HTMLElement>('.nki-visualizer')?.focus();
    root
      .querySelector('.nki-visualizer')
      ?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
    vi.advanceTimersByTime(60);
    expect(hidden('details')).toBe(false);
    drawn.dispose();
    other.dispose();
    vi.useRealTimers();
  });
});

describe('the full screen', () => {
  it('is the page where the browser allows no more', async () => {
    const root = document.createElement('div');
    root.requestFullscreen = () => Promise.reject(new Error('denied'));
    const screen = createScreen(root, () => undefined);
    screen.fill(true);
    await Promise.resolve();
    await Promise.resolve();
    expect(root.classList.contains('nki-fills-page')).toBe(true);
    screen.dispose();
    expect(root.classList.contains('nki-fills-page')).toBe(false);
  });
});
