/** The runs that an output keeps, drawn into an element: one at a time, the others as tabs, and a picture at rest. */
import { el } from '../dom';
import { Feed } from '../feed';
import { useStyle } from '../styles';
import { KeptValues } from '../values_host';
import { mount, type Visualizer } from '../visualizer';
import { inflate } from '../wire';
import type { Place } from '../place/place';
import { cellOf, keepTab, keptTab, numberIn } from '../place/memory';
import { awake } from './resting';
import { aboutRuns, keptOf, messageOf, pictureOf, savedRuns, type Bundle, type SavedRun } from './runs';
import style from './saved.css';
import { createRunTabs, type RunTabs } from './tabs';

export interface OutputOptions {
  /** The run that is drawn first; else the one that its predecessor showed, or the last. */
  readonly index?: number;
  readonly place?: Place;
  readonly fills?: boolean;
  /** Hears which run is drawn. */
  readonly chosen?: (index: number) => void;
}

export class SavedOutput {
  readonly node = el('div', { class: 'nki-saved' });
  private readonly runs: readonly SavedRun[];
  private readonly tabs: RunTabs | null;
  private visualizer: Visualizer | null = null;
  private index = -1;
  private number = 0;

  constructor(
    private readonly bundle: Bundle,
    private readonly options: OutputOptions = {},
  ) {
    this.runs = savedRuns(bundle);
    this.tabs = this.runs.length > 1 ? createRunTabs(aboutRuns(bundle), index => void this.choose(index)) : null;
    // A click or a key in it makes it the one that rests last.
    for (const event of ['pointerdown', 'focusin']) this.node.addEventListener(event, () => this.touch());
  }

  /** Draw, as soon as the node is where it is to be. */
  async open(): Promise<void> {
    const last = this.runs.length - 1;
    this.number = this.node.isConnected ? numberIn(this.node) : 0;
    const before = this.node.isConnected ? keptTab(cellOf(this.node), this.number, this.runs.length) : null;
    await this.show(Math.min(this.options.index ?? before ?? last, last), this.options.place);
  }

  /** Where the user is; null at rest. */
  place(): Place | null {
    return this.visualizer?.place() ?? null;
  }

  rest(): void {
    if (this.visualizer === null) return;
    this.end();
    useStyle('saved', style, this.node);
    const wake = (): void => void this.show(this.index);
    const picture = pictureOf(this.bundle);
    this.node.replaceChildren(
      el(
        'button',
        { type: 'button', class: 'nki-rested', title: 'Draw this run again', on: { click: wake } },
        el('span', {}, 'Draw this run again'),
        picture !== '' && el('img', { src: picture, alt: 'Timeline of the run' }),
      ),
    );
  }

  dispose(): void {
    this.end();
    awake.drop(this);
  }

  private touch(): void {
    if (this.visualizer !== null) awake.use(this);
  }

  private end(): void {
    this.visualizer?.dispose();
    this.visualizer = null;
  }

  private async choose(index: number): Promise<void> {
    if (index === this.index) return;
    const hadFocus = this.tabs?.element.contains(document.activeElement) === true;
    if (this.node.isConnected) keepTab(cellOf(this.node), this.number, this.runs.length, index);
    await this.show(index);
    if (hadFocus) this.tabs?.element.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }

  private async show(index: number, place?: Place): Promise<void> {
    this.end();
    this.index = index;
    this.tabs?.mark(index);
    this.options.chosen?.(index);
    const root = el('div', {});
    this.node.replaceChildren(root);
    useStyle('saved', style, this.node);
    const values = new KeptValues();
    const visualizer = (this.visualizer = mount(root, null, {
      values,
      place: place ?? 'kept',
      spot: index,
      fills: this.options.fills,
      above: this.tabs?.element,
    }));
    awake.use(this);
    const feed = new Feed(null);
    feed.attach(visualizer);
    try {
      const bytes = await inflate(messageOf(this.runs[index]));
      await values.add(keptOf(this.runs[index]));
      if (this.visualizer === visualizer) feed.accept(bytes);
    } catch (error) {
      if (this.visualizer === visualizer) feed.fail(error);
    }
  }
}
