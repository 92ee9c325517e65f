/** The keyboard: which key does what, only while the visualizer has the focus, and unseen by the notebook. */
import type { Command, Commands } from './commands';
import { el } from './dom';
import { STALL_RULE } from './stalls';

interface Binding {
  readonly keys: readonly string[];
  readonly command: Command;
  /** As the list of keys shows it. */
  readonly shown: string;
  readonly does: string;
}

const b = (keys: string, command: Command, shown: string, does: string): Binding => ({
  keys: keys.split(' ').map(key => (key === 'Space' ? ' ' : key)),
  command,
  shown,
  does,
});

/** `e.key` of each command; letters work with and without shift, so that Caps Lock does no harm. */
export const BINDINGS: readonly Binding[] = [
  b('w', 'zoomIn', 'W', 'zoom in'),
  b('s', 'zoomOut', 'S', 'zoom out'),
  b('a', 'panLeft', 'A', 'pan left'),
  b('d', 'panRight', 'D', 'pan right'),
  b('f', 'fit', 'F', 'fit selection, again: whole run'),
  b('r', 'zoomArea', 'R', 'zoom to the marked area'),
  b('m', 'marker', 'M', 'marker, second one shows the difference'),
  b('c', 'critical', 'C', 'critical path'),
  b('Space', 'play', 'Space', 'play, pause'),
  b('ArrowLeft', 'back', '←', 'step back'),
  b('ArrowRight', 'forward', '→', 'step forward'),
  b('Home', 'first', 'Home', 'first step'),
  b('End', 'last', 'End', 'last step'),
  b('l', 'line', 'L', 'step to the next line'),
  b('i', 'into', 'I', 'step into'),
  b('o', 'out', 'O', 'step out of the loop'),
  b('.', 'nextAlong', '.', 'next on the same engine'),
  b(',', 'previousAlong', ',', 'previous on the same engine'),
  b('ArrowUp', 'laneUp', '↑', 'lane above, at the cursor'),
  b('ArrowDown', 'laneDown', '↓', 'lane below, at the cursor'),
  b('[', 'predecessor', '[', 'what it waited for'),
  b(']', 'successor', ']', 'what waits for it'),
  b('n', 'nextFinding', 'N', 'next warning, next NaN where values are shown'),
  b('p', 'previousFinding', 'P', 'previous warning'),
  b('e', 'nextStall', 'E', `next stall: ${STALL_RULE}`),
  b('q', 'previousStall', 'Q', 'previous stall'),
  b('k', 'nextCritical', 'K', 'next critical instruction'),
  b('j', 'previousCritical', 'J', 'previous critical instruction'),
  b('h', 'nextMatch', 'H', 'next match of the search'),
  b('g', 'previousMatch', 'G', 'previous match of the search'),
  b('y', 'nextIteration', 'Y', 'next iteration of the loop'),
  b('t', 'previousIteration', 'T', 'previous iteration of the loop'),
  b('v', 'zoomIteration', 'V', 'zoom to the iteration, again: the loop around it'),
  b('z', 'fold', 'Z', 'fold loops and ranks, unfold them'),
  b('b', 'breakpoint', 'B', 'breakpoint here'),
  b('u', 'usedRange', 'U', 'used range, full range'),
  b('Enter', 'details', 'Enter', 'open details'),
  b('x', 'expandMotion', 'X', 'expand motion'),
  b('/', 'search', '/', 'search and mark'),
  b('1', 'explore', '1', 'Explore'),
  b('2', 'summary', '2', 'Summary'),
  b('3', 'instructions', '3', 'Instructions'),
  b('7', 'foldTimeline', '7', 'fold the timeline'),
  b('8', 'foldMoment', '8', 'fold the views below'),
  b('9', 'foldPanels', '9', 'fold source, values and details'),
  b('0', 'fullScreen', '0', 'fill the screen'),
  b('?', 'keys', '?', 'this list'),
];

/** Controls that use a key themselves keep it. */
const OWN_KEYS: readonly (readonly [string, RegExp])[] = [
  ['input:not([type="range"]), textarea', /^(?!Escape$)/],
  ['select', /^(Arrow|Home|End|Enter| $|.$)/],
  ['input[type="range"]', /^(Arrow|Home|End|Page)/],
  ['[role="slider"]', /^(Arrow|Home|End|Page)/],
  ['button, a[href], summary', /^(Enter| )$/],
  ['dialog *, dialog', /^(?!Escape$)/],
];

const BY_KEY = new Map(BINDINGS.flatMap(binding => binding.keys.map(key => [key, binding.command] as const)));
const TWICE_MS = 700;
/** JupyterLab looks for shortcuts before the event gets here; this attribute tells it not to. */
const SUPPRESS = 'data-lm-suppress-shortcuts';

export interface KeyboardOptions {
  readonly root: HTMLElement;
  readonly commands: Commands;
  /** One step back: card, selection, area. False if there was nothing to step back from. */
  readonly stepBack: () => boolean;
  /** Give the focus back to what is around the visualizer. */
  readonly leave: () => void;
}

/** Handle the keys of a visualizer. Returns what ends it. */
export function bindKeys({ root, commands, stepBack, leave }: KeyboardOptions): () => void {
  let escaped = -Infinity;
  // Before JupyterLab's own listener, which is the document's: only plain keys are kept from it, not Ctrl+S.
  const suppress = (event: KeyboardEvent): void => {
    if (!root.contains(event.target as Node)) return;
    if (isPlain(event)) root.setAttribute(SUPPRESS, 'true');
    else root.removeAttribute(SUPPRESS);
  };
  const press = (event: KeyboardEvent): void => {
    if (!isPlain(event)) return;
    event.stopPropagation();
    if (event.defaultPrevented) return;
    if (event.key === 'Escape') {
      event.preventDefault();
      const again = event.timeStamp - escaped < TWICE_MS;
      escaped = event.timeStamp;
      if (again || !stepBack()) leave();
      return;
    }
    const command = commandOf(event);
    if (!command) return;
    event.preventDefault();
    commands[command]();
  };
  window.addEventListener('keydown', suppress, true);
  root.addEventListener('keydown', press);
  return () => {
    window.removeEventListener('keydown', suppress, true);
    root.removeEventListener('keydown', press);
  };
}

function isPlain(event: KeyboardEvent): boolean {
  return !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing;
}

/** What a key does where the focus is; undefined: nothing, or the control's own. */
export function commandOf(event: KeyboardEvent): Command | undefined {
  const target = event.target as Element;
  for (const [selector, own] of OWN_KEYS) if (target.matches(selector) && own.test(event.key)) return undefined;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return BY_KEY.get(key);
}

/** The list of keys, as a dialog that is not shown yet. */
export function keyList(): HTMLDialogElement {
  const close = el('button', { type: 'button', class: 'nki-text-button' }, 'Close');
  const dialog = el(
    'dialog',
    { class: 'nki-keys', 'aria-label': 'Keys' },
    el('div', { class: 'nki-keys-head' }, el('h3', {}, 'Keys'), el('span', { class: 'nki-spacer' }), close),
    el(
      'dl',
      {},
      ...BINDINGS.map(({ shown, does }) => el('div', {}, el('dt', {}, el('kbd', {}, shown)), el('dd', {}, does))),
      el('div', {}, el('dt', {}, el('kbd', {}, 'Esc')), el('dd', {}, 'one step back, twice: leave')),
    ),
  );
  close.addEventListener('click', () => dialog.close());
  return dialog;
}
