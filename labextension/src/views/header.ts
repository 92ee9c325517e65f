/** How long, how sure, what holds it back: the kernel, its latency, one sentence, advice, and six numbers. */
import { ABOUT, DEFINITIONS, FIGURE_LABELS, MEMORY_LABELS } from '../_generated/schema';
import { cancelledText } from '../cancelled';
import { el, uniqueId } from '../dom';
import * as format from '../format';
import { headline, said } from '../headline';
import { icon } from '../icons';
import type { LayoutButtons } from '../layout/buttons';
import { toLine } from '../lines';
import { rest, rove } from '../roving';
import type { Context, Finding, Part, Run, State, View } from '../types';
import * as words from '../words';
import { hasPlace, ranked, severityIcon, toFinding } from './findings';

export type Tab = State['tab'];

export const TABS: readonly { readonly tab: Tab; readonly label: string }[] = [
  { tab: 'explore', label: 'Explore' },
  { tab: 'summary', label: 'Summary' },
  { tab: 'instructions', label: 'Instructions' },
];

const CHIPS = 2;

/** The header; `panels` are the ids of what its tabs show. */
export function createHeader(
  context: Context,
  panels: Readonly<Record<Tab, string>>,
  layout: LayoutButtons,
): View & {
  readonly tabIds: Readonly<Record<Tab, string>>;
} {
  const { run, store } = context;
  const tabs = el('div', { class: 'nki-tabs', role: 'tablist', 'aria-label': 'Views' });
  const buttons = new Map<Tab, HTMLButtonElement>();
  const ids: Partial<Record<Tab, string>> = {};
  TABS.forEach(({ tab, label }, index) => {
    const id = uniqueId('tab');
    ids[tab] = id;
    const button = el(
      'button',
      {
        id,
        type: 'button',
        role: 'tab',
        class: 'nki-tab',
        title: `${label} (${index + 1})`,
        'aria-controls': panels[tab],
        'data-label': label,
        on: { click: () => store.set({ tab }), focus: () => store.set({ tab }) },
      },
      label,
    );
    buttons.set(tab, button);
    tabs.append(button);
  });
  const element = el('header', { class: 'nki-header' });
  const fill = (): void => {
    element.replaceChildren(
      titleRow(run, tabs, layout.element),
      ...(run.steps > 0 && run.fault < 0 ? [facts(context)] : []),
    );
  };
  fill();
  const select = (tab: Tab): void => {
    for (const [name, button] of buttons) button.setAttribute('aria-selected', String(name === tab));
    const chosen = buttons.get(tab);
    if (chosen) rest(tabs, '.nki-tab', chosen);
  };
  rove(tabs, '.nki-tab');
  select(store.state.tab);
  return {
    element,
    tabIds: ids as Record<Tab, string>,
    draw(state, changes) {
      if (changes.has('tab')) select(state.tab);
      layout.draw(state);
      if (changes.has('edited')) element.classList.toggle('nki-is-edited', state.edited.size > 0);
    },
    reload: fill,
    dispose: () => undefined,
  };
}

function titleRow(run: Run, tabs: HTMLElement, layout: HTMLElement): HTMLElement {
  const failed = run.fault >= 0;
  const wrong = failed || run.findings.some(finding => finding.severity === 'error');
  const said = [run.target, format.plural(run.instructions, 'instruction')];
  const cancelled = cancelledText(run);
  if (cancelled !== '') said[1] = cancelled;
  if (failed) {
    said[1] = run.faultAfter
      ? `stopped after step ${format.ordinal(run.fault)}`
      : `stopped at step ${format.ordinal(run.fault)} of ${format.count(run.steps)}`;
    said.push('everything until the fault is kept');
  }
  const text = said.filter(Boolean).join(' · ');
  return el(
    'div',
    { class: 'nki-title' },
    el('i', { class: `nki-dot${dotOf(wrong, cancelled !== '')}`, 'aria-hidden': 'true' }),
    el('h2', { class: 'nki-kernel', title: run.kernel }, run.kernel || 'kernel'),
    el('span', { class: 'nki-edited', title: 'The views show the source that ran' }, 'Edited since'),
    el('span', { class: 'nki-meta', title: text }, text),
    run.steps > 0 && tabs,
    run.steps > 0 && layout,
  );
}

function dotOf(wrong: boolean, cancelled: boolean): string {
  if (wrong) return ' nki-dot-failed';
  return cancelled ? ' nki-dot-cancelled' : '';
}

function facts(context: Context): HTMLElement {
  const { run } = context;
  return el(
    'div',
    { class: 'nki-facts' },
    latency(run),
    el(
      'div',
      { class: 'nki-why' },
      el('div', { class: 'nki-caption nki-why-caption' }, 'What holds it back'),
      el('p', { class: 'nki-sentence' }, ...sentence(context)),
      chips(context),
    ),
    numbers(run),
  );
}

function latency(run: Run): HTMLElement {
  const { value, unit } = format.timeParts(run.makespan);
  const kinds = words.confidences(run);
  const bar = el('div', { class: 'nki-sure', 'aria-hidden': 'true' });
  for (const { name, share } of kinds) {
    bar.append(el('i', { class: `nki-sure-${name}`, style: { 'flex-grow': String(share) } }));
  }
  const text = words.confidenceText(run);
  const sources = `${FIGURE_LABELS.sources}: ${text}`;
  const within = words.within(run);
  return el(
    'div',
    { class: 'nki-latency' },
    el('div', { class: 'nki-caption' }, 'profile' in run.summary ? 'Profiled latency' : 'Simulated latency'),
    el(
      'div',
      { class: 'nki-figure', title: format.timeExact(run.makespan) },
      words.isUnsure(run) && el('small', {}, ABOUT),
      value,
      el('small', {}, ` ${unit}`),
      within !== '' &&
        el('small', { class: 'nki-within', title: `${words.intervalText(run)}. ${DEFINITIONS.interval}` }, within),
    ),
    kinds.length > 0 && bar,
    text !== '' &&
      el('div', { class: 'nki-caption nki-sure-text', title: `${sources}. ${DEFINITIONS.sources}` }, sources),
  );
}

function sentence(context: Context): Node[] {
  const out: Node[] = [];
  for (const parts of headline(context.run)) {
    if (out.length) out.push(document.createTextNode(' '));
    for (const part of parts) out.push(partNode(context, part));
  }
  return out;
}

function partNode({ store, run }: Context, part: Part): Node {
  const { waiting, source, line } = part;
  const { text, code } = said(run, part);
  if (waiting !== undefined || line !== undefined) {
    const go = (): void => {
      store.set({ tab: 'explore' });
      if (waiting !== undefined) store.select(waiting);
      else if (source !== undefined && line !== undefined) toLine(run, store, { source, line });
    };
    return el('button', { type: 'button', class: code ? 'nki-link nki-code' : 'nki-link', on: { click: go } }, text);
  }
  if (part.hue) return el('b', { class: 'nki-hue-text', style: { '--hue': `var(--nki-${part.hue})` } }, text);
  return document.createTextNode(text);
}

function chips(context: Context): HTMLElement | null {
  const { run, store } = context;
  const found = ranked(run).filter(item => item !== faultOf(run));
  if (!found.length) return null;
  const row = el('div', { class: 'nki-chips' });
  for (const finding of found.slice(0, CHIPS)) row.append(chip(context, finding));
  if (found.length > CHIPS) {
    row.append(
      el(
        'button',
        { type: 'button', class: 'nki-more', on: { click: () => store.set({ tab: 'summary' }) } },
        `${format.count(found.length - CHIPS)} more`,
      ),
    );
  }
  return row;
}

function chip(context: Context, finding: Finding): HTMLElement {
  const { severity } = finding;
  const said = [finding.message, finding.help].filter(Boolean).join('\n');
  return el(
    'button',
    {
      type: 'button',
      class: `nki-chip nki-chip-${severity}`,
      title: said,
      disabled: !hasPlace(context.run, finding),
      on: { click: () => toFinding(context, finding) },
    },
    icon(severityIcon(severity), 12),
    el('b', {}, finding.code),
    el('span', { class: 'nki-ellipsis' }, finding.message),
  );
}

/** The finding that stopped the run. */
export function faultOf(run: Run): Finding | undefined {
  if (run.fault < 0) return undefined;
  const errors = run.findings.filter(item => item.severity === 'error');
  return errors.find(item => item.outcome === 'fault') ?? errors[0];
}

function numbers(run: Run): HTMLElement {
  const list = el('dl', { class: 'nki-numbers' });
  for (const { name, value, title, over } of figures(run)) {
    list.append(el('div', { title }, el('dt', {}, name), el('dd', { class: over ? 'nki-over' : '' }, value)));
  }
  return list;
}

interface Figure {
  readonly name: string;
  readonly value: string;
  readonly title: string;
  readonly over?: boolean;
}

/** What is known of the six; one that is missing is left out, as it is not zero. */
function figures(run: Run): readonly Figure[] {
  const out: Figure[] = [];
  const mfu = words.figure(run, 'mfu');
  if (mfu !== null) {
    out.push({ name: FIGURE_LABELS.mfu, value: format.percent(mfu), title: DEFINITIONS.mfu });
  }
  const read = words.figure(run, 'hbm_read_bytes');
  const written = words.figure(run, 'hbm_write_bytes');
  if (read !== null && written !== null) {
    out.push({
      name: MEMORY_LABELS.hbm,
      value: format.rate(read + written, run.makespan),
      title: `${format.bytes(read)} read, ${format.bytes(written)} written`,
    });
  }
  const moved = words.figure(run, 'dma_bytes');
  if (moved !== null) out.push({ name: 'Moved', value: format.bytes(moved), title: 'Bytes that DMA moves' });
  for (const space of ['sbuf', 'psum'] as const) {
    const peak = run.peak(space);
    const capacity = run.capacity[space];
    if (peak === null) continue;
    const place = run.coreName(peak.core);
    const core = place === '' ? '' : `, ${place}`;
    const over = capacity > 0 && peak.bytes > capacity;
    out.push({
      name: `${MEMORY_LABELS[space]} peak${core}`,
      value: capacity ? format.bytesOf(peak.bytes, capacity) : format.bytes(peak.bytes),
      title: `${words.livePeak(run, peak)}${over ? '; over capacity' : ''}`,
      over,
    });
  }
  const mbu = words.figure(run, 'mbu');
  if (mbu !== null) {
    out.push({ name: FIGURE_LABELS.mbu, value: format.percent(mbu), title: DEFINITIONS.mbu });
  }
  return out;
}
