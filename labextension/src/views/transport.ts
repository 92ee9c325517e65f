/** The bar between all time above and this moment below: stepping, loop iterations, speed. */
import type { Command, Commands } from '../commands';
import { el, replace, setAttribute, setText } from '../dom';
import * as format from '../format';
import { icon } from '../icons';
import type { Icon } from '../icons';
import { createLoops } from '../loops';
import type { Level } from '../loops';
import { rest, rove } from '../roving';
import { speeds } from '../store';
import type { Changes, Context, State, View } from '../types';
import { nth } from '../words';

/** More values than this are drawn as a track with a mark. */
const PIPS = 16;
/** How often something more can be left out, see `data-room` in header.css. */
const LEAST_ROOM = 6;
/** Loops that have room, innermost first. */
const SHOWN_LOOPS = 3;

interface Button {
  readonly command: Command;
  readonly icon: Icon;
  readonly label: string;
  readonly key: string;
  /** Written beside the picture where there is room. */
  readonly word?: string;
}

const STEPS: readonly Button[] = [
  { command: 'first', icon: 'first', label: 'First step', key: 'Home' },
  { command: 'back', icon: 'previous', label: 'Step back', key: '←' },
  { command: 'play', icon: 'play', label: 'Play', key: 'Space' },
  { command: 'forward', icon: 'next', label: 'Step forward', key: '→' },
  { command: 'last', icon: 'last', label: 'Last step', key: 'End' },
];
const WAYS: readonly Button[] = [
  { command: 'line', icon: 'line', label: 'Step to the next line', key: 'L', word: 'Line' },
  { command: 'into', icon: 'into', label: 'Step to the next instruction of the program', key: 'I', word: 'Into' },
  { command: 'nextAlong', icon: 'along', label: 'Next on the same engine', key: '.', word: 'Same engine' },
];

const CONTROL = 'button, input, select, [role="slider"]';

export function createTransport(context: Context, commands: Commands): View {
  const { run, store } = context;
  const buttons = new Map<Command, HTMLButtonElement>();
  const make = (button: Button): HTMLButtonElement => {
    const made = el(
      'button',
      {
        type: 'button',
        class: `nki-control nki-control-${button.command}`,
        'aria-label': button.label,
        title: `${button.label} (${button.key})`,
        on: { click: commands[button.command] },
      },
      icon(button.icon),
      button.word !== undefined && el('span', { class: 'nki-control-word' }, button.word),
    );
    buttons.set(button.command, made);
    return made;
  };
  const where = el('div', { class: 'nki-where' });
  const slider = stepSlider(context);
  const loops = createLoopPips(context);
  const speed = speedChoice(context);
  const element = el(
    'div',
    { class: 'nki-transport', role: 'toolbar', 'aria-label': 'Transport' },
    el('div', { class: 'nki-group nki-steps' }, ...STEPS.map(make)),
    el('div', { class: 'nki-group nki-ways' }, ...WAYS.map(make)),
    where,
    slider,
    loops.element,
    el('div', { class: 'nki-spacer' }),
    speed,
    el(
      'div',
      { class: 'nki-group' },
      el(
        'button',
        {
          type: 'button',
          class: 'nki-control nki-control-search',
          'aria-label': 'Search instructions',
          title: 'Search instructions (/)',
          on: { click: commands.search },
        },
        icon('search', 14),
        el('kbd', { 'aria-hidden': 'true' }, '/'),
      ),
      el(
        'button',
        {
          type: 'button',
          class: 'nki-control',
          'aria-label': 'Keys',
          title: 'Keys (?)',
          on: { click: commands.keys },
        },
        el('kbd', { 'aria-hidden': 'true' }, '?'),
      ),
    ),
  );
  rove(element, CONTROL);
  // How much is left out for the loops' controls shown before: to find out has the browser lay out the page.
  const rooms = new Map<string, string>();
  const fit = (): void => {
    const room = rooms.get(loops.shape);
    if (room !== undefined) element.dataset.room = room;
    else rooms.set(loops.shape, fitInto(element));
  };
  const observer = new ResizeObserver(() => {
    rooms.clear();
    fit();
  });
  observer.observe(element);
  const draw = (state: State, changes: Changes): void => {
    if (changes.has('playing')) drawPlay(buttons.get('play'), state.playing);
    if (changes.has('step') || changes.has('time')) {
      drawWhere(where, context, state);
      if (slider.value !== String(state.step)) slider.value = String(Math.max(state.step, 0));
      setAttribute(slider, 'aria-valuetext', `step ${format.ordinal(state.step)} of ${format.count(run.steps)}`);
      slider.style.setProperty('--at', `${run.steps > 1 ? (100 * state.step) / (run.steps - 1) : 0}%`);
    }
    if (changes.has('step') && loops.draw(state)) {
      keepOneStop(element);
      fit();
    }
    if (changes.has('speed')) speed.value = String(state.speed);
  };
  draw(store.state, new Set<keyof State>(['step', 'playing', 'speed']));
  return { element, draw, reload: () => loops.reload(), dispose: () => observer.disconnect() };
}

function drawPlay(button: HTMLButtonElement | undefined, playing: boolean): void {
  if (!button) return;
  setAttribute(button, 'aria-label', playing ? 'Pause' : 'Play');
  button.title = `${playing ? 'Pause' : 'Play'} (Space)`;
  replace(button, icon(playing ? 'pause' : 'play'));
}

function drawWhere(where: HTMLElement, { run }: Context, state: State): void {
  if (!run.steps) {
    setText(where, 'No steps');
    return;
  }
  replace(
    where,
    el('b', {}, el('span', { class: 'nki-where-word' }, 'Step '), format.ordinal(state.step)),
    ` of ${format.count(run.steps)} · ${format.time(state.time)}`,
  );
}

function stepSlider({ run, store }: Context): HTMLInputElement {
  const slider = el('input', {
    type: 'range',
    class: 'nki-slider',
    min: 0,
    max: Math.max(0, run.steps - 1),
    step: 1,
    'aria-label': 'Step',
    disabled: run.steps < 2,
    on: {
      input: () => {
        store.set({ playing: false });
        store.select(Number(slider.value));
      },
    },
  });
  return slider;
}

function speedChoice({ run, store }: Context): HTMLSelectElement {
  const choice = el(
    'select',
    {
      class: 'nki-speed',
      'aria-label': 'Speed of play',
      title: 'Speed of play: time of the run a second',
      on: { change: () => store.set({ speed: Number(choice.value) }) },
    },
    ...[...new Set(speeds(run))].map(speed => el('option', { value: speed }, `${shortTime(speed)}/s`)),
  );
  return choice;
}

/** "1 µs": a round time without decimals that say nothing. */
function shortTime(time: number): string {
  return format.time(time).replace(/\.0+ /, ' ');
}

interface LoopPips {
  readonly element: HTMLElement;
  /** Names the controls: their loops and how often those run. */
  readonly shape: string;
  /** True if the controls are others than before. */
  draw(state: State): boolean;
  reload(): void;
}

function createLoopPips(context: Context): LoopPips {
  const { run, store } = context;
  const element = el('div', { class: 'nki-loops' });
  let loops = createLoops(run);
  let drawn = '';
  const go = (level: number, place: number): void => {
    const target = loops.move(store.state.step, level, place);
    if (target >= 0) store.select(target);
  };
  const draw = (state: State): boolean => {
    const levels = state.step >= 0 ? loops.levels(state.step) : [];
    const skipped = Math.max(0, levels.length - SHOWN_LOOPS);
    const shown = levels.slice(skipped);
    const key = shown.map(level => `${level.name} ${level.count}`).join();
    const made = key !== drawn;
    if (made) {
      replace(element, ...shown.map((_, index) => loopSlider(index)));
      drawn = key;
    }
    shown.forEach((level, index) => {
      drawLoop(element.children[index] as HTMLElement, level, place => go(skipped + index, place));
    });
    return made;
  };
  return {
    element,
    get shape() {
      return drawn;
    },
    draw,
    reload() {
      loops = createLoops(run);
      drawn = '';
      draw(store.state);
    },
  };
}

function loopSlider(index: number): HTMLElement {
  return el(
    'div',
    { class: 'nki-loop', 'data-index': index },
    el('span', { class: 'nki-loop-name nki-code' }),
    el('div', { class: 'nki-pips', role: 'slider', tabindex: -1 }),
  );
}

function drawLoop(element: HTMLElement, level: Level, go: (place: number) => void): void {
  const [name, pips] = [...element.children] as [HTMLElement, HTMLElement];
  const { label, count, place } = level;
  const said = `${label}, ${nth(place)} of ${format.count(count)}`;
  setText(name, level.name === 'line' ? `${label}: ${format.count(place + 1)} of ${format.count(count)}` : label);
  setAttribute(pips, 'aria-label', level.name === 'line' ? 'Step of this line' : `Iteration of loop ${level.name}`);
  setAttribute(pips, 'aria-valuemin', 1);
  setAttribute(pips, 'aria-valuemax', count);
  setAttribute(pips, 'aria-valuenow', place + 1);
  setAttribute(pips, 'aria-valuetext', said);
  pips.title = said;
  const tracked = count > PIPS;
  pips.classList.toggle('nki-pips-track', tracked);
  const drawn = tracked ? 1 : count;
  if (pips.childElementCount !== drawn) replace(pips, ...Array.from({ length: drawn }, () => el('i')));
  if (tracked) pips.style.setProperty('--at', String(place / (count - 1)));
  else [...pips.children].forEach((pip, index) => pip.classList.toggle('nki-on', index === place));
  const clamp = (to: number): number => Math.min(Math.max(to, 0), count - 1);
  pips.onkeydown = event => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 5, PageDown: -5 }[event.key];
    const end = { Home: 0, End: count - 1 }[event.key];
    if ((by === undefined && end === undefined) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    go(clamp(end ?? place + (by ?? 0)));
  };
  pips.onpointerdown = event => {
    if (event.button !== 0) return;
    const drag = (at: PointerEvent): void => {
      const box = pips.getBoundingClientRect();
      go(clamp(Math.floor(((at.clientX - box.left) / Math.max(box.width, 1)) * count)));
    };
    drag(event);
    pips.setPointerCapture(event.pointerId);
    pips.onpointermove = drag;
    pips.onlostpointercapture = () => {
      pips.onpointermove = null;
    };
  };
}

/** Leave out the less important, in the order of the style sheet, until the rest has room. */
function fitInto(toolbar: HTMLElement): string {
  for (let room = 0; room <= LEAST_ROOM; room += 1) {
    toolbar.dataset.room = String(room);
    if (toolbar.scrollWidth <= toolbar.clientWidth) break;
  }
  return toolbar.dataset.room ?? '';
}

/** New controls may not be more stops of the Tab key. */
function keepOneStop(toolbar: HTMLElement): void {
  const stops = [...toolbar.querySelectorAll<HTMLElement>(CONTROL)].filter(item => item.tabIndex === 0);
  const first = stops[0] ?? toolbar.querySelector<HTMLElement>(CONTROL);
  if (first) rest(toolbar, CONTROL, first);
}
