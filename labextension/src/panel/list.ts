/** The list of a session's runs: latency, target, and the change against the run of the kernel before it. */
import type { RunAbout } from '../_generated/schema';
import { el, replace } from '../dom';
import * as format from '../format';
import { latencyOf, timeOf } from '../saved/runs';
import type { NotebookRuns, SessionRun } from './runs';

/** A change that is none. */
const LEAST = 0.0005;

export interface RunList {
  readonly element: HTMLElement;
  draw(runs: NotebookRuns | null, shown: SessionRun | null): void;
}

export function createRunList(choose: (run: SessionRun) => void): RunList {
  const rows = el('ol', { class: 'nki-session-rows' });
  const element = el('section', { class: 'nki-session', role: 'region', 'aria-label': 'Runs of the session' }, rows);
  return {
    element,
    draw(runs, shown) {
      const top = element.scrollTop;
      const all = [...(runs?.runs ?? [])].reverse();
      replace(
        rows,
        ...(all.length > 0
          ? all.map(run => row(run, changeOf(run, runs!.before(run)), run === shown, choose))
          : [el('li', { class: 'nki-quiet nki-pad' }, 'No kernel has run in this notebook.')]),
      );
      element.scrollTop = top;
    },
  };
}

function row(run: SessionRun, change: Change, isShown: boolean, choose: (run: SessionRun) => void): HTMLElement {
  const { about, prompt, number } = run;
  const facts =
    about === null ? '' : [about.target, format.plural(about.instructions, 'instruction')].filter(Boolean).join(' · ');
  return el(
    'li',
    {},
    el(
      'button',
      {
        type: 'button',
        class: 'nki-session-run',
        'aria-current': isShown ? 'true' : null,
        title: [
          `Run ${number}`,
          prompt && `cell ${prompt}`,
          about !== null && timeOf(about),
          run.isShown ? '' : 'not shown by its cell any more',
        ]
          .filter(Boolean)
          .join(', '),
        on: { click: () => choose(run) },
      },
      el('span', { class: 'nki-session-prompt' }, prompt),
      el(
        'span',
        { class: 'nki-session-what' },
        el('b', { class: 'nki-code nki-ellipsis' }, nameOf(about)),
        el('span', { class: 'nki-quiet nki-ellipsis' }, facts),
      ),
      el(
        'span',
        { class: 'nki-session-time' },
        el('span', { class: about?.failed ? 'nki-over' : '' }, about === null ? '' : latencyOf(about)),
        el('span', { class: `nki-change nki-change-${change.kind}`, title: change.title }, change.text),
      ),
    ),
  );
}

function nameOf(about: RunAbout | null): string {
  return about === null || about.kernel === '' ? 'kernel' : about.kernel;
}

interface Change {
  readonly kind: 'faster' | 'slower' | 'same' | 'none';
  readonly text: string;
  readonly title: string;
}

/** How a run differs from the one before it; between targets that is no change of the kernel, and says so. */
export function changeOf({ about }: Pick<SessionRun, 'about'>, before: Pick<SessionRun, 'about'> | null): Change {
  const was = before?.about ?? null;
  if (about === null || was === null) return { kind: 'none', text: '', title: '' };
  if (about.failed || was.failed || was.makespan === 0)
    return { kind: 'none', text: about.failed === was.failed ? '' : about.failed ? '' : 'runs again', title: '' };
  const share = about.makespan / was.makespan - 1;
  const title = `${format.time(was.makespan)} before`;
  if (about.target !== was.target) return { kind: 'none', text: `${signed(share)} to ${was.target}`, title };
  if (Math.abs(share) < LEAST) return { kind: 'same', text: 'same', title };
  return { kind: share < 0 ? 'faster' : 'slower', text: signed(share), title };
}

function signed(share: number): string {
  return `${share < 0 ? '\u2212' : '+'}${format.percent(Math.abs(share))}`;
}
