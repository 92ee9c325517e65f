/** A run that is not over: how far it is, how long it will take, and the way to stop it, above what is drawn of it. */
import { el, replace, setAttribute, setText, svg } from './dom';
import * as format from './format';

/** What the kernel says of a run, in the trait `live` of nki_lab/widgets/live.py. */
export interface RunState {
  readonly state: 'running' | 'cancelling' | 'cancelled';
  readonly kernel: string;
  readonly target: string;
  readonly phase: string;
  readonly done: number;
  readonly total: number | null;
  readonly elapsed: number;
  readonly left: number | null;
  readonly rate: number | null;
  /** Picoseconds up to which what is drawn is done; null: nothing is drawn. */
  readonly until: number | null;
  /** Whether the kernel reads messages while it is busy. */
  readonly cancels: boolean;
}

/** How the page may stop a run: `interrupt` does so, null where the page knows no way; the kernel then may be asked. */
export interface Stopping {
  readonly interrupt: (() => Promise<unknown>) | null;
  readonly ask: () => boolean;
}

export interface RunningBar {
  readonly element: HTMLElement;
  draw(state: RunState): void;
  /** Stop the run; nothing if that was asked for, or if there is nothing to stop. */
  cancel(): void;
  /** Say that there is no kernel any more. */
  lose(text: string): void;
  dispose(): void;
}

const RING = 7;
const LENGTH = 2 * Math.PI * RING;
/** How long a kernel may take to hear the page before it is said that it does not. */
const PATIENCE_MS = 2000;

const DEAF =
  'This kernel reads no messages while it runs, and this page cannot interrupt it. Use its Interrupt command or button; in a terminal, press Ctrl+C.';

/** The bar of a run that can be stopped as `stopping` says. */
export function createRunningBar(stopping: Stopping): RunningBar {
  return new Bar(stopping);
}

class Bar implements RunningBar {
  readonly element: HTMLElement;
  private readonly arc = svg('circle', { class: 'nki-ring-done', cx: 9, cy: 9, r: RING, pathLength: LENGTH });
  private readonly ring = svg(
    'svg',
    { class: 'nki-ring', viewBox: '0 0 18 18', width: 18, height: 18, 'aria-hidden': 'true' },
    svg('circle', { class: 'nki-ring-whole', cx: 9, cy: 9, r: RING }),
    this.arc,
  );
  private readonly kernel = el('span', { class: 'nki-kernel' });
  private readonly share = el('b', { class: 'nki-running-share' });
  private readonly phase = el('span', { class: 'nki-meta' });
  private readonly elapsed = el('span', { class: 'nki-quiet nki-no-wrap' });
  private readonly button = el(
    'button',
    { type: 'button', class: 'nki-button nki-cancel', on: { click: () => this.cancel() } },
    'Cancel',
    el('kbd', {}, 'Esc'),
  );
  private readonly done = el('i', {});
  private readonly line = el('div', {
    class: 'nki-running-line',
    role: 'progressbar',
    'aria-label': 'Run',
    'aria-valuemin': 0,
    'aria-valuemax': 100,
  });
  private readonly counts = el('span', {});
  private readonly hint = el('span', { class: 'nki-running-hint' });
  private readonly word = el('p', { class: 'nki-running-word', role: 'status', hidden: true });
  private state: RunState | null = null;
  private asked = false;
  private isLost = false;
  private waiting: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly stopping: Stopping) {
    this.line.append(this.done);
    this.element = el(
      'div',
      { class: 'nki-running', on: { keydown: event => this.pressed(event) } },
      el(
        'div',
        { class: 'nki-running-head' },
        this.ring,
        this.kernel,
        this.share,
        this.phase,
        el('span', { class: 'nki-spacer' }),
        this.elapsed,
        this.button,
      ),
      this.line,
      el('div', { class: 'nki-running-foot' }, this.counts, this.hint),
      this.word,
    );
  }

  draw(state: RunState): void {
    this.state = state;
    if (this.isLost) return;
    const { kernel, phase, done, total, elapsed, left, rate, until } = state;
    const share = total ? Math.min(1, done / total) : null;
    const isOver = state.state === 'cancelled';
    setAttribute(this.element, 'data-state', state.state);
    setText(this.kernel, until === null ? kernel : ''); // else the header below has it
    this.kernel.hidden = until !== null;
    setText(this.share, share === null ? '' : format.percent(share));
    const rest = left === null ? '' : `${seconds(left)} left`;
    setText(this.phase, isOver ? 'cancelled' : [phase, rest].filter(Boolean).join(' · '));
    setText(this.elapsed, seconds(elapsed));
    this.arc.setAttribute('stroke-dasharray', `${(share ?? 0.25) * LENGTH} ${LENGTH}`);
    setAttribute(this.ring, 'data-unknown', share === null);
    this.done.style.width = `${(share ?? 0) * 100}%`;
    setAttribute(this.line, 'aria-valuenow', share === null ? null : Math.round(share * 100));
    setText(this.counts, counted(done, total, rate));
    setText(this.hint, until === null ? '' : 'Zoom and step work in what is here');
    this.button.hidden = isOver;
    this.button.disabled = this.asked;
    if (state.state === 'cancelling' || this.asked) this.labelled('Cancelling');
    if (state.cancels && this.asked) clearTimeout(this.waiting);
  }

  cancel(): void {
    if (this.asked || this.isLost || this.state?.state === 'cancelled') return;
    this.asked = true;
    this.button.disabled = true;
    this.labelled('Cancelling');
    const { interrupt, ask } = this.stopping;
    if (interrupt !== null) {
      interrupt().catch((error: unknown) => this.refuse(`The kernel could not be interrupted: ${String(error)}`));
      return;
    }
    if (!ask()) this.refuse('The kernel is gone.');
    // A kernel that hears says that it is cancelling.
    else
      this.waiting = setTimeout(() => {
        if (this.state?.state === 'running') this.refuse(DEAF);
      }, PATIENCE_MS);
  }

  lose(text: string): void {
    this.isLost = true;
    clearTimeout(this.waiting);
    this.element.dataset.state = 'lost';
    this.button.hidden = true;
    this.say(text);
    setText(this.phase, this.state === null ? '' : `stopped in ${this.state.phase}`);
    setText(this.hint, (this.state?.until ?? null) === null ? '' : 'What is drawn stays');
  }

  dispose(): void {
    clearTimeout(this.waiting);
    this.element.remove();
  }

  private pressed(event: KeyboardEvent): void {
    if (event.key !== 'Escape' || event.defaultPrevented) return;
    event.preventDefault();
    event.stopPropagation();
    this.cancel();
  }

  private refuse(text: string): void {
    this.asked = false;
    this.button.disabled = false;
    this.labelled('Cancel');
    this.say(text);
  }

  private say(text: string): void {
    this.word.hidden = text === '';
    setText(this.word, text);
  }

  private labelled(text: string): void {
    const first = this.button.firstChild;
    if (first?.textContent !== text) replace(this.button, text, text === 'Cancel' && el('kbd', {}, 'Esc'));
  }
}

/** "5.6 of 9.9 M instructions, 312 k/s". */
function counted(done: number, total: number | null, rate: number | null): string {
  if (total === null && done === 0) return '';
  const of = total === null ? format.shortCount(done) : partOf(done, total);
  return `${of} instructions${rate === null ? '' : `, ${format.shortCount(rate)}/s`}`;
}

function partOf(done: number, total: number): string {
  const [whole, part] = [format.shortCount(total), format.shortCount(done)];
  const [, unit = ''] = whole.split(' ');
  const [number, own = ''] = part.split(' ');
  return `${own === unit ? number : part} of ${whole}`;
}

/** "0.4 s", "14 s", "2 min 05 s". */
export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 100) return `${Math.round(value)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}
