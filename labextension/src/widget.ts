/**
 * The widget of notebooks (anywidget). nki_lab/widgets/visualizer.py is the other side and says what is sent: the page
 * asks for the run or for steps, and puts the parts of each answer together. Only `step` is kept equal on both sides.
 */

import type { ChartsAnswer, ChartsHost } from './charts';
import { Feed } from './feed';
import { followRun, isLive } from './following_run';
import type { Kernel } from './following_run';
import { MessageParts } from './message_parts';
import type { MessagePart } from './message_parts';
import { linked } from './linking';
import type { Store } from './types';
import { KernelValues, type KernelAnswer } from './values_host';
import { mount } from './visualizer';

/** What is used of a widget's model. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: (...args: never[]) => void): void;
  off(event: string, listener: (...args: never[]) => void): void;
  send(content: unknown): void;
  /** The manager of the page's widgets, if it tells of its kernel. */
  readonly widget_manager?: { readonly kernel?: Kernel | null };
}

interface Content extends KernelAnswer {
  readonly text?: string;
}

const STEP_MS = 100; // the kernel hears of a step at most so often

/** What the views of one model share: its run, which is asked for once. */
class Source {
  readonly feed: Feed;
  private readonly parts = new MessageParts();
  /** Messages of pinned tiles. */
  private readonly kept: (ArrayBuffer | ArrayBufferView)[] = [];
  private readonly charting: ((told: ChartsAnswer, script: BlobPart | null) => void)[] = [];
  private readonly asking = new Set<KernelValues>();
  /** The step that came from here last; what else the model has came from the kernel. */
  private sent: unknown;

  constructor(readonly model: Model) {
    this.feed = new Feed({
      requestSteps: (first, count) => void tell(model, { kind: 'steps', first, count }),
    });
    model.on('msg:custom', this.take);
    if (!tell(model, { kind: 'load' })) this.feed.fail('The kernel is gone. Run the cell again.');
  }

  private readonly take = (content: Content, buffers: readonly (ArrayBuffer | ArrayBufferView)[] = []): void => {
    if (content.kind === 'failed') this.feed.fail(content.text ?? 'The kernel could not send it.');
    if (content.kind === 'kept') {
      this.kept.push(...buffers);
      for (const values of this.asking) for (const bytes of buffers) values.keep(bytes);
    }
    if (content.request !== undefined)
      for (const values of this.asking) if (values.receive(content, buffers[0])) return;
    if (content.kind === 'charts') this.charting.shift()?.(content, (buffers[0] as BlobPart | undefined) ?? null);
    if (content.kind !== 'part' || buffers.length === 0) return;
    const part = content as unknown as MessagePart;
    try {
      const { whole, read } = this.parts.add(part, buffers[0]);
      if (whole === null) this.feed.progress(read, part.total);
      else this.feed.accept(whole);
    } catch (error) {
      this.feed.fail(error);
    }
  };

  /** Where a view asks for charts. */
  readonly charts: ChartsHost = {
    ask: (version, answer) => {
      this.charting.push(answer);
      if (tell(this.model, { kind: 'charts', version })) return;
      this.charting.pop();
      answer({ text: 'The kernel is gone: charts need it. Run the cell again.' }, null);
    },
  };

  /** Where a view asks for values. */
  values(): { readonly host: KernelValues; readonly end: () => void } {
    const host = new KernelValues(
      content => tell(this.model, content),
      () => isGone(this.model),
    );
    for (const bytes of this.kept) host.keep(bytes);
    this.asking.add(host);
    return {
      host,
      end: () => {
        this.asking.delete(host);
        host.dispose();
      },
    };
  }

  /** Keep the step of a store and the model's equal; returns what ends that. */
  follow(store: Store): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const send = (): void => {
      timer = undefined;
      const { step } = store.state;
      if (step === this.model.get('step')) return;
      this.sent = step;
      this.model.set('step', step);
      if (!isGone(this.model)) attempt(() => this.model.save_changes());
    };
    const receive = (): void => {
      const step = this.model.get('step');
      // A view that moves does not move the other views of its model; the kernel moves all.
      if (step === this.sent) return;
      this.sent = undefined;
      if (typeof step === 'number' && step >= 0) store.goToStep(step);
    };
    receive();
    let unlink = (): void => undefined;
    const link = (): void => {
      unlink();
      const channel = this.model.get('channel');
      unlink = linked(typeof channel === 'string' ? channel : '', store);
    };
    link();
    this.model.on('change:channel', link);
    this.model.on('change:step', receive);
    const unlisten = store.listen((_, changes) => {
      if (changes.has('step')) timer ??= setTimeout(send, STEP_MS);
    });
    return () => {
      clearTimeout(timer);
      unlisten();
      unlink();
      this.model.off('change:channel', link);
      this.model.off('change:step', receive);
    };
  }
}

/** Send a message to the kernel; false if it is gone. Between its end and the word of it, sending throws. */
function tell(model: Model, content: unknown): boolean {
  return attempt(() => model.send(content));
}

function attempt(act: () => void): boolean {
  try {
    act();
    return true;
  } catch {
    return false;
  }
}

/** Whether the kernel of a model is known to be dead. */
function isGone(model: Model): boolean {
  const kernel = model.widget_manager?.kernel;
  return kernel?.isDisposed === true || kernel?.status === 'dead';
}

const sources = new WeakMap<Model, Source>();

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const source = sources.get(model) ?? new Source(model);
  sources.set(model, source);
  const values = source.values();
  const visualizer = mount(el, null, { values: values.host, charts: source.charts, place: 'kept' });
  const endRun = isLive(model) ? followRun(model, visualizer, content => tell(model, content)) : null;
  const detach = source.feed.attach(visualizer, store => source.follow(store));
  return () => {
    endRun?.();
    detach();
    values.end();
    visualizer.dispose();
  };
}

export default { render };
