/** The runs of a cell as tabs above the one that is drawn. */
import type { RunAbout } from '../_generated/schema';
import { el, setAttribute } from '../dom';
import * as format from '../format';
import { rest, rove } from '../roving';
import { latencyOf, timeOf } from './runs';

export interface RunTabs {
  readonly element: HTMLElement;
  /** Mark the tab of the run that is drawn. */
  mark(index: number): void;
}

/** Tabs of runs of which this is told; `choose` hears which one is wanted. */
export function createRunTabs(abouts: readonly (RunAbout | null)[], choose: (index: number) => void): RunTabs {
  const element = el('div', { class: 'nki-run-tabs', role: 'tablist', 'aria-label': 'Runs of the cell' });
  const names = new Set(abouts.map(about => about?.kernel));
  const targets = new Set(abouts.map(about => about?.target));
  const tabs = abouts.map((about, index) =>
    el(
      'button',
      {
        type: 'button',
        role: 'tab',
        class: 'nki-run-tab',
        title: about === null ? '' : titleOf(about),
        on: { click: () => choose(index) },
      },
      el('b', {}, about === null || names.size === 1 ? String(index + 1) : about.kernel || 'kernel'),
      about !== null && targets.size > 1 && el('span', {}, about.target),
      about !== null && el('span', { class: about.failed ? 'nki-run-failed' : '' }, latencyOf(about)),
      about !== null && about.times > 1 && el('span', {}, `× ${format.count(about.times)}`),
    ),
  );
  element.append(...tabs);
  rove(element, '.nki-run-tab');
  return {
    element,
    mark(index) {
      tabs.forEach((tab, at) => setAttribute(tab, 'aria-selected', String(at === index)));
      if (tabs[index] !== undefined) rest(element, '.nki-run-tab', tabs[index]);
    },
  };
}

function titleOf(about: RunAbout): string {
  const parts = [about.kernel, about.target, format.plural(about.instructions, 'instruction'), timeOf(about)];
  if (about.times > 1) parts.push(`${format.count(about.times)} equal runs in a row`);
  return parts.filter(Boolean).join(' · ');
}
