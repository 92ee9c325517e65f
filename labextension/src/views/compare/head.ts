/** The head of a comparison: which runs, how they are aligned, how much faster, why, and some figures. */
import type { Change, ComparisonHeader } from '../../_generated/schema';
import { HUE_LABELS, MEMORY_LABELS } from '../../_generated/schema';
import { el, replace, setAttribute } from '../../dom';
import * as format from '../../format';
import { rest, rove } from '../../roving';
import type { Run } from '../../types';
import type { Comparison, Side } from './message';
import type { CompareState, CompareStore } from './state';
import { amount, change, signedPercent, tone, WITHIN } from './texts';
import { ALIGNMENTS, type Alignment, type Scaling } from './windows';

export interface Head {
  readonly element: HTMLElement;
  draw(state: CompareState): void;
}

const ALIGNED: Readonly<Record<Alignment, string>> = { start: 'Start', iteration: 'Iteration', line: 'Line' };
const SCALED: Readonly<Record<Scaling, string>> = { same: 'Same', relative: 'Relative' };

export function createHead(
  comparison: Comparison,
  runs: Readonly<Record<Side, Run>>,
  store: CompareStore,
  openKeys: () => void,
): Head {
  const { header } = comparison;
  const enabled: Readonly<Record<Alignment, string>> = {
    start: '',
    iteration: comparison.iterations.length > 0 ? '' : 'No loop is in both runs',
    line: comparison.lines.count > 0 ? '' : 'No line of the critical path is in both runs',
  };
  const align = choice('Align', ALIGNMENTS, ALIGNED, alignment => store.set({ alignment }), enabled);
  const scale = choice('Scale', ['same', 'relative'] as const, SCALED, scaling => store.set({ scaling }));
  const edits = el(
    'button',
    { type: 'button', class: 'nki-button', on: { click: () => store.set({ edits: !store.state.edits }) } },
    header.edits.length === 0 ? 'Same source' : `Edited: ${format.plural(header.edits.length, 'line')}`,
  );
  edits.disabled = header.edits.length === 0;
  const keys = el(
    'button',
    { type: 'button', class: 'nki-button', title: 'Keys (?)', 'aria-label': 'Keys', on: { click: openKeys } },
    '?',
  );
  const chips = (['before', 'after'] as const).map((side, number) =>
    el(
      'span',
      { class: `nki-cmp-chip nki-cmp-${side}`, title: header.sides[number] },
      el('b', {}, side === 'before' ? 'A' : 'B'),
      ` ${header.labels[number] ?? side}`,
    ),
  );
  const element = el(
    'header',
    { class: 'nki-cmp-head' },
    el(
      'div',
      { class: 'nki-cmp-bar' },
      el('h2', { class: 'nki-cmp-title' }, 'Compare'),
      ...chips,
      el('span', { class: 'nki-spacer' }),
      align.element,
      scale.element,
      edits,
      keys,
    ),
    facts(header, runs),
  );
  return {
    element,
    draw(state) {
      align.choose(state.alignment);
      scale.choose(state.scaling);
      setAttribute(edits, 'aria-expanded', String(state.edits));
    },
  };
}

function choice<T extends string>(
  label: string,
  values: readonly T[],
  names: Readonly<Record<T, string>>,
  set: (value: T) => void,
  reasons?: Readonly<Record<T, string>>,
): { element: HTMLElement; choose(value: T): void } {
  const buttons = new Map<T, HTMLButtonElement>();
  const group = el('div', { class: 'nki-cmp-choice', role: 'radiogroup', 'aria-label': label });
  for (const value of values) {
    const reason = reasons?.[value] ?? '';
    const button = el(
      'button',
      {
        type: 'button',
        role: 'radio',
        title: reason || null,
        disabled: reason !== '',
        on: { click: () => set(value) },
      },
      names[value],
    );
    buttons.set(value, button);
    group.append(button);
  }
  rove(group, 'button');
  return {
    element: el('div', { class: 'nki-cmp-choosing' }, el('span', { class: 'nki-quiet' }, label), group),
    choose(value) {
      for (const [name, button] of buttons) setAttribute(button, 'aria-checked', String(name === value));
      const chosen = buttons.get(value);
      if (chosen) rest(group, 'button', chosen);
    },
  };
}

/** Return a sentence in pieces, with what stands between backticks as code. */
function withCode(sentence: string): (HTMLElement | string)[] {
  return sentence.split('`').map((piece, at) => (at % 2 === 1 ? el('code', {}, piece) : piece));
}

function facts(header: ComparisonHeader, runs: Readonly<Record<Side, Run>>): HTMLElement {
  return el(
    'div',
    { class: 'nki-cmp-facts' },
    latency(header.latency),
    el(
      'div',
      { class: 'nki-cmp-why' },
      el('p', { class: 'nki-cmp-sentence' }, ...withCode(header.sentence)),
      ...header.notes.map(note => el('p', { class: 'nki-cmp-note' }, note)),
    ),
    el('dl', { class: 'nki-cmp-figures' }, ...figures(header, runs)),
  );
}

function latency(item: Change): HTMLElement {
  const [before, after] = [item.before ?? 0, item.after ?? 0];
  const { value, unit } = format.timeParts(after);
  // One unit for both, named once.
  const first = format.timeParts(before);
  const shown = first.unit === unit ? first.value : `${first.value} ${first.unit}`;
  const isSame = change(item) === '0';
  const share = isSame ? 'same' : before > 0 ? signedPercent((after - before) / before) : '–';
  const look = `nki-cmp-share nki-cmp-${tone(item, true) || 'same'}`;
  return el(
    'div',
    { class: 'nki-cmp-latency' },
    el('div', { class: 'nki-caption' }, 'Latency'),
    el(
      'div',
      { class: 'nki-figure nki-cmp-total' },
      el('span', { class: 'nki-cmp-was' }, shown),
      el('span', { class: 'nki-cmp-arrow', 'aria-label': 'to' }, '→'),
      el('span', {}, value, el('small', {}, ` ${unit}`)),
      el('span', { class: look, title: item.within_error ? WITHIN : null }, share),
    ),
  );
}

/** Figures that tell most at a glance: how well the target is used, and how full it is. */
function figures(header: ComparisonHeader, runs: Readonly<Record<Side, Run>>): HTMLElement[] {
  const out: HTMLElement[] = [];
  const add = (label: string, before: string, after: string, by: string): void => {
    const change = el('span', { class: 'nki-quiet' }, by === '0' ? 'same' : by);
    const value = el('dd', {}, el('span', { class: 'nki-quiet' }, `${before} → `), el('b', {}, after), ' ', change);
    out.push(el('div', {}, el('dt', { class: 'nki-caption' }, label), value));
  };
  const named = (name: string): Change | undefined => header.memory.find(item => item.name === name);
  const usual = (item: Change | undefined, label = item?.label ?? ''): void => {
    const [before, after] = [item?.before ?? null, item?.after ?? null];
    if (item !== undefined && before !== null && after !== null && (before > 0 || after > 0))
      add(label, amount(before, item.unit), amount(after, item.unit), change(item));
  };
  usual(named('mfu'));
  const rates = [rateOf(header, 'before'), rateOf(header, 'after')];
  if (rates[0] > 0 && rates[1] > 0)
    add(
      MEMORY_LABELS.hbm,
      format.rate(rates[0], 1e12),
      format.rate(rates[1], 1e12),
      signedPercent(rates[1] / rates[0] - 1),
    );
  const tensor = header.engines.find(
    item => item.busy.name === 'tensor' && (item.busy.before ?? 0) + (item.busy.after ?? 0) > 0,
  );
  if (tensor) {
    const cores = { before: runs.before.cores.length || 1, after: runs.after.cores.length || 1 };
    const part = (side: Side): number =>
      (tensor.waiting[side] ?? 0) / Math.max(1, (header.latency[side] ?? 0) * cores[side]);
    const shares: Change = { ...tensor.waiting, unit: 'share', before: part('before'), after: part('after') };
    usual(shares, `${HUE_LABELS.tensor} waiting`);
  }
  const occupied = named('sbuf_occupied_bytes_per_partition');
  const isKnown = typeof occupied?.before === 'number' && typeof occupied.after === 'number';
  usual(isKnown ? occupied : named('sbuf_peak_bytes_per_partition'));
  const [one, two] = [runs.before.steps, runs.after.steps];
  if (out.length < 5)
    add(
      'Instructions',
      format.count(one),
      format.count(two),
      two === one ? '0' : `${two < one ? '−' : '+'}${format.count(Math.abs(two - one))}`,
    );
  return out.slice(0, 5);
}

function rateOf(header: ComparisonHeader, side: Side): number {
  const moved = ['hbm_read_bytes', 'hbm_write_bytes'].map(
    name => header.memory.find(item => item.name === name)?.[side] ?? 0,
  );
  const time = header.latency[side] ?? 0;
  return time > 0 ? ((moved[0] + moved[1]) / time) * 1e12 : 0;
}

/** The edits of the source: what was, what is. */
export function createEdits(header: ComparisonHeader): HTMLElement {
  const rows = header.edits.map(edit =>
    el(
      'tr',
      {},
      el('td', { class: 'nki-cmp-number' }, edit.line || ''),
      el('td', { class: 'nki-code nki-cmp-old' }, edit.line ? edit.text : ''),
      el('td', { class: 'nki-cmp-number' }, edit.other_line || ''),
      el(
        'td',
        { class: 'nki-code nki-cmp-new' },
        edit.other_line ? (edit.state === 'moved' ? 'moved here' : edit.other_text) : '',
      ),
    ),
  );
  const element = el('div', { class: 'nki-cmp-edits', hidden: true });
  const head = ['A', 'Before the edit', 'B', 'After'].map(text => el('th', { scope: 'col' }, text));
  replace(element, el('table', { 'aria-label': 'Edited lines' }, el('tr', {}, ...head), ...rows));
  return element;
}
