/** Values of a tile before and after the current instruction, what it changed, and how far they are from a reference. */
import { el, replace, setAttribute, setText } from '../../dom';
import * as format from '../../format';
import { useStyle } from '../../styles';
import type { TileValues } from '../../tile_values';
import type { Buffer, Context, State, ValuesAnswer, View } from '../../types';
import { createChoice } from './choice';
import { errorScale, signedScale, sizeScale, type Look, type Scale } from './colours';
import { createDistribution } from './distribution';
import { createGrowth } from './growth';
import { createMap, type HeatMap, type Place } from './map';
import { createNumbers, origin } from './numbers';
import { named, nextWrite, operandsOf, placeText, tileOf, writesTo } from './tiles';
import { MARK_LABELS } from './text';
import { MARKS } from '../../_generated/schema';
import style from './values.css';

type When = 'before' | 'after' | 'change';
const TIMES: readonly (readonly [When, string])[] = [
  ['before', 'Before'],
  ['after', 'After'],
  ['change', 'Change'],
];
const LOOKS: readonly (readonly [Look, string])[] = [
  ['signed', 'Signed'],
  ['magnitude', 'Magnitude'],
  ['bits', 'Bits'],
];
const REFERENCES: Readonly<Record<string, string>> = { shadow: 'float64', checked: 'run.check' };
const NO_KERNEL = 'Values need the kernel: run the cell again and open run.view().';
const PINNED = 'Notebooks, pages and folders written from now on have it.';
/** So long the cursor rests before the kernel is asked. */
const PAUSE_MS = 60;
/** Elements of the grid of numbers. */
const [COMPACT, WIDE] = [
  { row: 6, column: 5 },
  { row: 8, column: 7 },
] as const;
const [COMPACT_PX, WIDE_PX] = [132, 200] as const;

export interface ValuesView extends View {
  /** Go to the next instruction that writes NaN or an infinity. */
  nextNonfinite(): void;
}

export function createValues(context: Context): ValuesView {
  return new Values(context);
}

class Values implements ValuesView {
  readonly element: HTMLElement;
  private run;
  private when: When = 'after';
  private look: Look = 'signed';
  private against = '';
  private isWide = false;
  private place: Place = { row: 0, column: 0 };
  private tile: TileValues | null = null;
  private buffer: Buffer | null = null;
  /** What the shown answer, or the asked one, is for. */
  private asked = '';
  private timer: ReturnType<typeof setTimeout> | undefined;
  private disposed = false;
  private found: readonly Buffer[] = [];

  private readonly name = el('span', { class: 'nki-code nki-ellipsis nki-values-name' });
  private readonly about = el('span', { class: 'nki-quiet nki-ellipsis' });
  private readonly select = el('select', { class: 'nki-values-select', 'aria-label': 'Tile' });
  private readonly search = el('input', {
    type: 'search',
    class: 'nki-values-search',
    placeholder: 'Find tile',
    'aria-label': 'Find a tile by name',
  });
  private readonly reference = el('select', { class: 'nki-values-select', 'aria-label': 'Reference' });
  private readonly times = createChoice('Moment', TIMES, when => this.change({ when }));
  private readonly looks = createChoice('Colours', LOOKS, look => this.change({ look }));
  private readonly maps: readonly HeatMap[];
  private readonly numbers = createNumbers(place => this.choose(place));
  private readonly distribution = createDistribution(mark => this.findMark(mark));
  private readonly growth = createGrowth(
    step => this.context.store.select(step),
    () => this.askGrowth(),
  );
  private readonly wide = el('button', { type: 'button', class: 'nki-text-button' }, 'Expand');
  private readonly nextNan = el('button', { type: 'button', class: 'nki-text-button', 'aria-keyshortcuts': 'N' });
  private readonly nextWrite = el('button', { type: 'button', class: 'nki-text-button' }, 'Next write');
  private readonly pin = el('button', { type: 'button', class: 'nki-text-button' }, 'Pin');
  private readonly stop = el('button', { type: 'button', class: 'nki-text-button nki-values-stop' });
  private readonly message = el('p', { class: 'nki-values-message nki-pad', role: 'status' });
  private readonly body: HTMLElement;

  constructor(private readonly context: Context) {
    this.run = context.run;
    useStyle('values', style);
    const handlers = { choose: (place: Place) => this.choose(place), move: (y: number, x: number) => this.move(y, x) };
    this.maps = [createMap(handlers), createMap(handlers), createMap(handlers)];
    this.nextNan.append('Next NaN ', el('kbd', { 'aria-hidden': 'true' }, 'N'));
    this.nextNan.addEventListener('click', () => this.nextNonfinite());
    this.nextWrite.addEventListener('click', () => this.toNextWrite());
    this.pin.addEventListener('click', () => this.pinTile());
    this.stop.addEventListener('click', () => this.toggleStop());
    this.wide.addEventListener('click', () => {
      this.isWide = !this.isWide;
      this.arrange();
    });
    this.select.addEventListener('change', () => this.selected(this.select.value));
    this.reference.addEventListener('change', () => this.change({ against: this.reference.value }));
    this.search.addEventListener('input', () => {
      this.found = named(this.run, this.search.value);
      this.options();
    });
    this.search.addEventListener('keydown', event => {
      if (event.key === 'Enter' && this.found[0]) this.selected(String(this.found[0].id));
    });
    this.body = el(
      'div',
      { class: 'nki-values-body' },
      el('div', { class: 'nki-values-maps' }, ...this.maps.map(map => map.element)),
      el('div', { class: 'nki-values-below' }, this.numbers.element, this.distribution.element, this.growth.element),
    );
    this.element = el(
      'section',
      { class: 'nki-panel nki-values', role: 'region', 'aria-label': 'Values' },
      el(
        'div',
        { class: 'nki-values-top' },
        el('h3', {}, 'Values'),
        this.name,
        this.about,
        el('span', { class: 'nki-spacer' }),
        this.wide,
      ),
      el(
        'div',
        { class: 'nki-values-controls' },
        this.select,
        this.search,
        this.times.element,
        this.looks.element,
        this.reference,
        this.nextNan,
        this.nextWrite,
        this.stop,
        this.pin,
      ),
      this.message,
      this.body,
    );
    this.arrange();
  }

  draw(state: State, changes: ReadonlySet<keyof State>): void {
    if (!this.isShown(state)) return;
    const relevant = (['step', 'tile', 'tab', 'panel', 'layout', 'theme', 'playing', 'stopTile'] as const).some(name =>
      changes.has(name),
    );
    if (!relevant) return;
    // What playing stopped for is what is looked at.
    const { stopTile, step, tile } = state;
    const isStopped = changes.has('playing') && !state.playing && writesTo(this.run, stopTile, step);
    if (isStopped && tile !== stopTile) this.context.store.set({ tile: stopTile });
    this.ask();
    if (changes.has('theme') || changes.has('layout') || changes.has('panel') || changes.has('tab')) this.show();
  }

  reload(run: Context['run']): void {
    this.run = run;
    this.asked = '';
    if (this.isShown(this.context.store.state)) this.ask();
  }

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.timer);
  }

  nextNonfinite(): void {
    const { store, speak, values } = this.context;
    if (values === undefined) {
      speak(NO_KERNEL);
      this.say(NO_KERNEL);
      return;
    }
    this.nextNan.disabled = true;
    values.findNonfinite(store.state.step, found => {
      this.nextNan.disabled = false;
      if (this.disposed) return;
      if (typeof found === 'string') this.say(found);
      else if (found >= 0) {
        store.set({ tile: -1 });
        store.select(found);
        this.when = 'after';
        speak(`NaN or infinity written by instruction ${format.ordinal(found)}`);
      } else {
        this.say('No later instruction writes NaN or an infinity.');
        speak('No later instruction writes NaN or an infinity');
      }
    });
  }

  private askGrowth(): void {
    this.growth.wait();
    this.context.values?.growth(found => {
      if (!this.disposed) this.growth.show(found, this.run.steps);
    });
  }

  // -- what is asked ---------------------------------------------------------------------------------------------------

  private isShown(state: State): boolean {
    return state.tab === 'explore' && this.element.closest('[hidden]') === null;
  }

  private change(given: { when?: When; look?: Look; against?: string }): void {
    Object.assign(this, given);
    this.controls();
    if (given.look === undefined) this.ask();
    else this.show();
  }

  private selected(number: string): void {
    const buffer = this.run.buffers[Number(number)];
    if (buffer !== undefined) this.context.store.set({ tile: buffer.id });
  }

  private toNextWrite(): void {
    const { store, speak } = this.context;
    const next = this.buffer ? nextWrite(this.run, this.buffer.id, store.state.step) : -1;
    if (next < 0) speak('Nothing writes to this tile later');
    else {
      const tile = this.buffer?.id ?? -1;
      store.select(next);
      store.set({ tile });
    }
  }

  /** Keep the tile after this step, where notebooks and pages find it. */
  private pinTile(): void {
    const { speak, store, values } = this.context;
    const { buffer } = this;
    const { step } = store.state;
    if (buffer === null || step < 0) return;
    if (values === undefined) {
      this.say(NO_KERNEL);
      return;
    }
    this.pin.disabled = true;
    values.pin(step, buffer.id, reason => {
      if (this.disposed) return;
      this.pin.disabled = false;
      const text = reason || `Pinned: ${buffer.name} after step ${format.ordinal(step)}. ${PINNED}`;
      this.say(text);
      speak(text);
      this.options();
    });
  }

  /** Stop at writes to this tile while playing, or no more. */
  private toggleStop(): void {
    const { speak, store } = this.context;
    const { buffer } = this;
    const stopTile = store.state.stopTile < 0 && buffer ? buffer.id : -1;
    store.set({ stopTile });
    speak(stopTile < 0 ? 'Playing stops at no tile' : `Playing stops at writes to ${buffer?.name ?? ''}`);
    this.drawStop();
  }

  private drawStop(): void {
    const { stopTile } = this.context.store.state;
    const armed = stopTile < 0 ? undefined : this.run.buffers[stopTile];
    setText(this.stop, armed ? `Stops at writes to ${armed.name}` : 'Stop at writes');
    setAttribute(this.stop, 'aria-pressed', String(armed !== undefined));
    setAttribute(this.stop, 'title', 'Playing stops at the next write to this tile');
  }

  private ask(): void {
    const { state } = this.context.store;
    const { values } = this.context;
    const buffer = tileOf(this.run, state);
    if (buffer !== this.buffer) {
      this.buffer = buffer;
      this.place = { row: 0, column: 0 };
      this.tile = null;
    }
    this.options();
    this.head();
    this.drawStop();
    if (values === undefined) {
      this.take({ kind: 'none', reason: NO_KERNEL });
      return;
    }
    if (buffer === null || state.step < 0) {
      this.take({ kind: 'none', reason: 'No instruction is selected.' });
      return;
    }
    if (state.playing && values.isLive) {
      this.say('Values follow when playing stops.');
      return;
    }
    const { step } = state;
    const { when, against } = this;
    const key = [step, buffer.id, when, against].join();
    const first = this.tile === null ? this.place : origin(this.tile, this.place, this.size);
    const excerpt = [Math.max(0, first.row - 8), Math.max(0, first.column - 8)] as const;
    if (key === this.asked && (this.tile === null || this.holdsNumbers())) return;
    this.asked = key;
    setAttribute(this.element, 'aria-busy', 'true');
    clearTimeout(this.timer);
    this.timer = setTimeout(
      () => {
        values.ask({ step, buffer: buffer.id, when, against, excerpt }, answer => {
          if (!this.disposed && this.asked === key) this.take(answer);
        });
      },
      values.isLive ? PAUSE_MS : 0,
    );
  }

  private take(answer: ValuesAnswer): void {
    if (answer.kind === 'waiting') {
      this.say(answer.reason);
      return;
    }
    setAttribute(this.element, 'aria-busy', null);
    if (answer.kind === 'none') {
      this.tile = null;
      this.say(answer.reason);
    } else {
      this.tile = answer.tile;
      const { header } = answer.tile;
      this.say(answer.pinned ? `Kept in the notebook: values ${header.when} step ${format.ordinal(header.step)}.` : '');
      this.place = within(this.place, answer.tile);
    }
    this.controls();
    this.show();
  }

  // -- what is shown ---------------------------------------------------------------------------------------------------

  private get size(): { readonly row: number; readonly column: number } {
    return this.isWide ? WIDE : COMPACT;
  }

  private say(text: string): void {
    this.message.hidden = text === '';
    setText(this.message, text);
  }

  private head(): void {
    const { state } = this.context.store;
    setText(this.name, this.buffer?.name ?? '');
    setAttribute(this.name, 'title', this.buffer?.name ?? null);
    setText(this.about, this.buffer ? placeText(this.buffer) : '');
    const when = this.when === 'change' ? 'changed by' : this.when;
    setAttribute(
      this.element,
      'aria-label',
      this.buffer ? `Values of ${this.buffer.name} ${when} step ${format.ordinal(state.step)}` : 'Values',
    );
  }

  /** The operands, then what a search found, then the tile itself if it is neither. */
  private options(): void {
    const operands = operandsOf(this.run, this.context.store.state.step);
    const shown = new Set<number>();
    const option = (buffer: Buffer): HTMLElement | null => {
      if (shown.has(buffer.id)) return null;
      shown.add(buffer.id);
      return el('option', { value: buffer.id, selected: buffer === this.buffer }, buffer.name);
    };
    const group = (label: string, buffers: readonly Buffer[]): HTMLElement | null => {
      const made = buffers.map(option).filter(item => item !== null);
      return made.length > 0 ? el('optgroup', { label }, ...made) : null;
    };
    const kept = (this.context.values?.kept ?? []).flatMap(item => this.run.buffers[item.buffer] ?? []);
    replace(
      this.select,
      group('This instruction', operands),
      group('Found', this.found),
      group('Kept in the notebook', kept),
      this.buffer && group('Selected', [this.buffer]),
    );
    this.select.value = String(this.buffer?.id ?? '');
  }

  private controls(): void {
    const header = this.tile?.header;
    const isLive = this.context.values?.isLive === true;
    this.times.draw((header?.when as When | undefined) ?? this.when);
    this.looks.draw(this.look);
    for (const [when] of TIMES) this.times.allow(when, isLive, NO_KERNEL);
    const hasBits = header?.when !== 'change';
    this.looks.allow('bits', hasBits, 'A difference has no bits');
    if (!hasBits && this.look === 'bits') this.look = 'signed';
    this.nextNan.hidden = !isLive;
    this.pin.hidden = !isLive;
    setAttribute(this.pin, 'title', 'Keep the values after this step in the notebook, as run.pin does');
    this.drawStop();
    this.growth.element.hidden = !isLive || header?.references.includes('shadow') !== true;
    const known = header?.references ?? [];
    this.reference.hidden = known.length === 0 || this.when === 'change';
    replace(
      this.reference,
      el('option', { value: '' }, 'No reference'),
      ...known.map(name => el('option', { value: name }, `Reference: ${REFERENCES[name] ?? name}`)),
    );
    this.reference.value = this.against;
    this.head();
  }

  private arrange(): void {
    setAttribute(this.element, 'data-wide', this.isWide);
    setText(this.wide, this.isWide ? 'Back' : 'Expand');
    setAttribute(this.wide, 'aria-expanded', String(this.isWide));
    this.controls();
    this.ask();
    this.show();
  }

  private show(): void {
    const { tile } = this;
    this.body.hidden = tile === null;
    if (tile === null) return;
    const { header, cells } = tile;
    const palette = this.context.palette();
    const scale = this.scale(tile);
    const of = this.look === 'bits' ? bitsOf(tile) : cells.value;
    const height = this.isWide ? WIDE_PX : COMPACT_PX;
    const when = header.when === 'change' ? 'change by' : header.when;
    const bins = header.row_bin * header.column_bin;
    const note = `${header.dtype}, ${when} step ${format.ordinal(header.step)}${bins > 1 ? ` · ${bins} elements in a cell` : ''}`;
    const title = header.when === 'change' ? 'Change' : 'This run';
    this.maps[0]?.show({ tile, of, scale, title, note, hasBar: true, ownMarks: true }, palette, height);
    const against = REFERENCES[header.against] ?? header.against;
    this.maps[1]?.show(
      cells.reference && {
        tile,
        of: cells.reference,
        scale,
        title: 'Reference',
        note: against,
        hasBar: false,
        ownMarks: false,
      },
      palette,
      height,
    );
    const worst = header.error?.largest ?? 0;
    this.maps[2]?.show(
      cells.error && {
        tile,
        of: cells.error,
        scale: errorScale(worst, palette),
        title: 'Relative error',
        note: 'log scale',
        hasBar: true,
        ownMarks: false,
      },
      palette,
      height,
    );
    this.distribution.show(tile);
    this.focusOn();
  }

  private scale(tile: TileValues): Scale {
    const { header } = tile;
    const palette = this.context.palette();
    if (this.look === 'bits' && tile.isWhole) return sizeScale(2 ** header.width - 1, palette);
    const most = Math.max(Math.abs(header.low ?? 0), Math.abs(header.high ?? 0));
    return this.look === 'signed' ? signedScale(most, palette) : sizeScale(most, palette);
  }

  /** Draw what depends on the chosen element. */
  private focusOn(): void {
    const { tile, place } = this;
    if (tile === null) return;
    const rows = this.buffer?.space === 'hbm' ? 'rows' : 'partitions';
    this.numbers.show(
      tile,
      place,
      this.size,
      { look: this.look, scale: this.scale(tile), rows },
      this.context.palette(),
    );
    const first = origin(tile, place, this.size);
    for (const map of this.maps) map.frame(first, this.size);
  }

  private choose(place: Place): void {
    if (this.tile === null) return;
    this.place = within(place, this.tile);
    this.focusOn();
    this.context.speak(this.numbers.spoken(this.tile, this.place));
    if (!this.holdsNumbers()) this.ask();
  }

  private move(rows: number, columns: number): void {
    this.choose({ row: this.place.row + rows, column: this.place.column + columns });
  }

  private findMark(mark: number): void {
    const next = this.tile?.next(mark, this.place.row, this.place.column);
    if (next) this.choose(next);
    else {
      const name = (Object.keys(MARKS) as (keyof typeof MARKS)[]).find(item => MARKS[item] === mark);
      this.context.speak(`No element is ${name ? MARK_LABELS[name] : 'marked'}`);
    }
  }

  private holdsNumbers(): boolean {
    const { tile } = this;
    if (tile === null || tile.isWhole || !this.context.values?.isLive) return true;
    const first = origin(tile, this.place, this.size);
    const { row, column } = this.size;
    const last = { row: Math.min(first.row + row, tile.header.rows), column: first.column + column };
    const end = Math.min(last.column, tile.header.columns) - 1;
    return tile.at(first.row, first.column) !== null && tile.at(last.row - 1, end) !== null;
  }
}

function within({ row, column }: Place, { header }: TileValues): Place {
  return {
    row: Math.max(0, Math.min(row, header.rows - 1)),
    column: Math.max(0, Math.min(column, header.columns - 1)),
  };
}

/** The bits of all elements where each has its own cell; else what the cells show. */
function bitsOf(tile: TileValues): ArrayLike<number> {
  if (!tile.isWhole) return tile.cells.value;
  const { rows, columns } = tile.cells;
  return Float64Array.from(
    { length: rows * columns },
    (_, at) => tile.at(Math.floor(at / columns), at % columns)?.bits ?? 0,
  );
}
