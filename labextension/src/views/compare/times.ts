/** The two timelines, one over the other, with what belongs together between them. */
import { createSurface, type Surface } from '../../canvas/surface';
import { forgetWidths } from '../../canvas/text';
import { el, setAttribute, setStyle, setText } from '../../dom';
import * as format from '../../format';
import { cancelSoon, soon } from '../../store';
import { useStyle } from '../../styles';
import type { Found, Palette, Run, Span, State } from '../../types';
import timelineStyle from '../timeline/timeline.css';
import { type Card, createCard } from '../timeline/card';
import { colouring } from '../timeline/colour';
import type { DrawContext } from '../timeline/draw_context';
import { type Box, type Figure, layoutFigure } from '../timeline/figure';
import { createGutter } from '../timeline/gutter';
import { type Hit, hitAt } from '../timeline/hit';
import { type Marks, marksOf } from '../timeline/marks';
import { paintFigure } from '../timeline/paint';
import { boxOf, stepOf } from '../timeline/pointer';
import type { Layout } from '../timeline/strips';
import { createTree } from '../timeline/tree';
import { type Places, paintAlone, paintBeyond, paintEnd, paintGain, paintPair, paintRibbons } from './bands';
import { LineTable } from './line_table';
import { type Comparison, other, type Side, SIDES, type Stretches } from './message';
import { type CompareState, type CompareStore, type Picked, samePick } from './state';
import { layoutSide } from './strips';
import {
  type Aligned,
  type Alignment,
  type Anchors,
  anchorsOf,
  followed,
  levelFor,
  type Ribbon,
  ribbonsOf,
} from './windows';

const TITLE = 26;
const BAND = 84;
const THIN = 18;

export type Runs = Readonly<Record<Side, Run>>;

export interface Times {
  readonly element: HTMLElement;
  /** What takes the pointer and the focus. */
  readonly plot: HTMLElement;
  readonly figures: Readonly<Record<Side, Figure>> | null;
  aligned(): Aligned;
  draw(): void;
  /** Rows came, or colours and sizes changed. */
  redraw(): void;
  /** What is at a place of the plot. */
  at(x: number, y: number): { side: Side; hit: Hit; figure: Figure; y: number } | null;
  /** The card of what was hit; null hides it. */
  explain(found: { side: Side; hit: Hit; figure: Figure } | null): void;
  /** Numbers of the lines of an instruction; -1: none of those that are told. */
  lineOf(picked: Picked): number;
  dispose(): void;
}

export interface TimesOptions {
  readonly comparison: Comparison;
  readonly runs: Runs;
  readonly store: CompareStore;
  readonly palette: () => Palette;
}

export function createTimes(options: TimesOptions): Times {
  return new Timelines(options);
}

/** Both runs show all their lanes. */
const nothingFolds = (): void => undefined;

class Timelines implements Times {
  readonly element: HTMLElement;
  readonly plot = el('div', { class: 'nki-tl-plot nki-cmp-plot', tabindex: 0, role: 'group' });
  figures: Readonly<Record<Side, Figure>> | null = null;
  private readonly layouts: Readonly<Record<Side, Layout>>;
  private readonly titles = {
    before: el('div', { class: 'nki-cmp-side' }),
    after: el('div', { class: 'nki-cmp-side' }),
  };
  private places: Places;
  private height = 0;
  private readonly base: Surface = createSurface();
  private readonly over: Surface = createSurface();
  private readonly gutters = { before: createGutter(nothingFolds), after: createGutter(nothingFolds) };
  private readonly trees = { before: createTree(), after: createTree() };
  private readonly caption = el('div', { class: 'nki-cmp-band-name' });
  private readonly card: Card = createCard();
  private readonly body: HTMLElement;
  private readonly observer: ResizeObserver;
  private readonly lines: LineTable;
  private frame = 0;
  private drawn: CompareState | null = null;
  private ribbons: { of: Stretches; list: readonly Ribbon[] } | null = null;
  private stale = true;
  private anchors: { readonly alignment: Alignment; readonly found: Anchors } | null = null;

  constructor(private readonly options: TimesOptions) {
    const { runs, comparison } = options;
    const both = [runs.before, runs.after];
    this.layouts = { before: layoutSide(runs.before, both), after: layoutSide(runs.after, both) };
    this.places = this.placesNow();
    this.lines = new LineTable(runs, comparison);
    this.over.element.classList.add('nki-tl-over');
    this.plot.append(this.base.element, this.over.element);
    this.body = el('div', { class: 'nki-tl-body' }, this.gutter(), this.plot);
    this.arrange();
    this.body.append(this.card.element);
    this.element = el('div', { class: 'nki-tl nki-cmp-times' }, this.body);
    for (const side of SIDES) {
      this.element.append(this.trees[side].element);
      setAttribute(this.trees[side].element, 'data-side', side);
    }
    setAttribute(this.plot, 'aria-describedby', `${this.trees.before.itemId} ${this.trees.after.itemId}`);
    this.observer = new ResizeObserver(() => {
      if (this.plot.clientWidth !== this.base.width) this.redraw();
    });
    this.observer.observe(this.plot);
    document.fonts?.addEventListener('loadingdone', this.fontsCame);
  }

  /** Where everything is: apart where bands join the runs. */
  private placesNow(): Places {
    const { comparison, store } = this.options;
    const { same_kernel: same, paired } = comparison.header;
    const band = same && paired > 0 && store.state.alignment !== 'start' ? BAND : THIN;
    const below = TITLE + this.layouts.before.height;
    return { top: { before: TITLE, after: below + band + TITLE }, ribbons: [below + 4, below + band - 4] };
  }

  private arrange(): void {
    const { top, ribbons } = this.places;
    this.height = top.after + this.layouts.after.height;
    setStyle(this.body, { height: `${this.height}px` });
    for (const side of SIDES) {
      setStyle(this.titles[side], { top: `${top[side] - TITLE}px`, height: `${TITLE}px` });
      setStyle(this.gutters[side].element, { top: `${top[side]}px`, height: `${this.layouts[side].height}px` });
    }
    setStyle(this.caption, { top: `${ribbons[0]}px`, height: `${Math.max(0, ribbons[1] - ribbons[0])}px` });
  }

  private gutter(): HTMLElement {
    const { runs, comparison } = this.options;
    const column = el('div', { class: 'nki-tl-gutter nki-cmp-gutter' });
    SIDES.forEach((side, number) => {
      const label = comparison.header.labels[number] ?? side;
      const chip = el('b', { class: `nki-cmp-letter nki-cmp-${side}` }, letter(side));
      const title = this.titles[side];
      setAttribute(title, 'title', comparison.header.sides[number] ?? null);
      title.append(chip, el('span', {}, label));
      const gutter = this.gutters[side];
      gutter.arrange(this.layouts[side], runs[side]);
      gutter.element.classList.add('nki-cmp-names');
      column.append(title, gutter.element);
    });
    column.append(this.caption);
    return column;
  }

  private readonly fontsCame = (): void => {
    forgetWidths();
    this.redraw();
  };

  dispose(): void {
    if (this.frame) cancelSoon(this.frame);
    this.observer.disconnect();
    document.fonts?.removeEventListener('loadingdone', this.fontsCame);
  }

  redraw(): void {
    this.stale = true;
    this.draw();
  }

  /** At the next frame. */
  draw(): void {
    this.frame ||= soon(() => {
      this.frame = 0;
      this.paint();
    });
  }

  private get stretches(): Stretches | undefined {
    const { comparison, store } = this.options;
    const { alignment, window } = store.state;
    if (alignment === 'line') return comparison.lines;
    const width = this.plot.clientWidth;
    return alignment === 'iteration'
      ? comparison.iterations[levelFor(comparison.iterations, { ...window, width })]
      : undefined;
  }

  aligned(): Aligned {
    const { runs, comparison, store } = this.options;
    const { alignment, scaling } = store.state;
    const spans = { before: runs.before.makespan, after: runs.after.makespan };
    // Where to begin does not change with the zoom: the outermost loop says it.
    const of =
      alignment === 'line' ? comparison.lines : alignment === 'iteration' ? comparison.iterations[0] : undefined;
    if (this.anchors?.alignment !== alignment) this.anchors = { alignment, found: anchorsOf(of, spans) };
    return { anchors: this.anchors.found, alignment, scaling, spans };
  }

  private scales(width: number): Readonly<Record<Side, Span & { width: number }>> {
    const { window } = this.options.store.state;
    return { before: { ...window, width }, after: { ...followed(window, this.aligned()), width } };
  }

  private paint(): void {
    const width = this.plot.clientWidth;
    if (width === 0) {
      this.stale = true;
      return;
    }
    if (this.element.isConnected) useStyle('timeline', timelineStyle, this.element);
    const { state } = this.options.store;
    const last = this.drawn;
    const isMoved =
      this.stale || (['window', 'alignment', 'scaling'] as const).some(name => last?.[name] !== state[name]);
    if (isMoved) this.layout(width);
    if (isMoved || last?.line !== state.line || !samePick(last.selected, state.selected)) this.paintBase(width);
    this.paintOver(width);
    this.tell();
    this.drawn = state;
    this.stale = false;
  }

  private layout(width: number): void {
    const { runs } = this.options;
    const places = this.placesNow();
    if (places.top.after !== this.places.top.after) {
      this.places = places;
      this.arrange();
    }
    const scales = this.scales(width);
    const figure = (side: Side): Figure => layoutFigure(runs[side], this.layouts[side], scales[side]);
    this.figures = { before: figure('before'), after: figure('after') };
    const of = this.stretches;
    const joins = this.options.store.state.alignment === 'iteration';
    this.ribbons = of === undefined ? null : { of, list: ribbonsOf(of, scales, joins) };
    for (const side of SIDES) {
      this.gutters[side].fill(this.figures[side]);
      this.trees[side].fill(this.figures[side]);
    }
    setText(this.caption, captionOf(this.options, this.ribbons?.of));
    setAttribute(this.plot, 'aria-label', `Lanes of both runs, ${spanText(scales.before)}`);
  }

  private drawing(surface: Surface, run: Run, marks: Marks | null = null): DrawContext {
    const palette = this.options.palette();
    const { context, ratio } = surface;
    return { context, ratio, palette, dimmed: marks !== null, marks, colouring: colouring(run, 'engine', palette) };
  }

  private paintBase(width: number): void {
    const { runs, store, comparison } = this.options;
    this.base.resize(width, this.height);
    this.base.clear();
    const { context } = this.base;
    for (const side of SIDES) {
      const figure = this.figures![side];
      const drawing = this.drawing(this.base, runs[side], this.marks(side));
      const top = this.places.top[side];
      context.save();
      context.beginPath();
      context.rect(0, top, width, figure.height);
      context.clip();
      context.translate(0, top);
      paintFigure(drawing, figure);
      if (comparison.header.same_kernel && comparison.header.paired > 0)
        paintAlone(drawing, figure, 0, step => comparison.partner(side, step) >= 0);
      context.restore();
      paintEnd(drawing, figure, top);
    }
    const drawing = this.drawing(this.base, runs.before);
    if (this.ribbons) {
      const { line, alignment } = store.state;
      const bright = ({ first }: Ribbon): boolean => alignment === 'line' && comparison.lineOf[first] === line;
      context.save();
      context.beginPath();
      context.rect(0, this.places.ribbons[0] - 1, width, this.places.ribbons[1] - this.places.ribbons[0] + 2);
      context.clip();
      paintRibbons(drawing, this.ribbons.list, this.places, { stretches: this.ribbons.of, bright });
      context.restore();
    }
    const shifted = this.figures!.before.scale.from !== this.figures!.after.scale.from;
    if (store.state.scaling === 'same' && !shifted) paintGain(drawing, this.figures!, this.places);
  }

  /** What stands out in a run: the picked instruction, or those of a line. */
  private marks(side: Side): Marks | null {
    const { store, comparison, runs } = this.options;
    const { selected, line } = store.state;
    if (selected !== null) {
      const step = selected.side === side ? selected.step : comparison.partner(selected.side, selected.step);
      return marksOf(runs[side], found(step < 0 ? [] : [step]));
    }
    return line < 0 ? null : marksOf(runs[side], found(this.lines.steps(side, line)));
  }

  private paintOver(width: number): void {
    const { comparison, store, runs } = this.options;
    this.over.resize(width, this.height);
    this.over.clear();
    const drawing = this.drawing(this.over, runs.before);
    const { selected, hover } = store.state;
    if (hover !== null && !samePick(hover, selected))
      paintPair(drawing, comparison, this.figures!, this.places, hover, 1);
    if (selected === null) return;
    paintPair(drawing, comparison, this.figures!, this.places, selected, 1.8);
    for (const side of SIDES) {
      const step = selected.side === side ? selected.step : comparison.partner(selected.side, selected.step);
      paintBeyond(drawing, this.figures![side], this.places.top[side], step);
    }
  }

  private tell(): void {
    const { comparison, runs, store } = this.options;
    const { selected } = store.state;
    for (const side of SIDES) {
      const step =
        selected === null
          ? -1
          : selected.side === side
            ? selected.step
            : comparison.partner(selected.side, selected.step);
      this.trees[side].update(runs[side], { selected: step, step: -1 } as State);
    }
  }

  at(x: number, y: number): { side: Side; hit: Hit; figure: Figure; y: number } | null {
    for (const side of SIDES) {
      const figure = this.figures?.[side];
      const down = y - this.places.top[side];
      if (figure && down >= 0 && down < figure.height) return { side, figure, hit: hitAt(figure, x, down), y: down };
    }
    return null;
  }

  explain(told: { side: Side; hit: Hit; figure: Figure } | null): void {
    const box = told && boxOf(told.figure, told.hit);
    if (told === null || box === null) {
      this.card.hide();
      return;
    }
    const anchor: Box = { ...box, x: box.x + this.plot.offsetLeft, y: box.y + this.places.top[told.side] };
    if (!this.card.show(told.figure, told.hit, anchor, this.body)) return;
    const step = stepOf(told.figure, told.hit);
    if (told.hit.kind === 'bar' && told.hit.bar.count === 1)
      this.card.element.append(partnerFact(this.options, told.side, step));
  }

  lineOf(picked: Picked): number {
    return this.lines.number(picked);
  }
}

function letter(side: Side): string {
  return side === 'before' ? 'A' : 'B';
}

function spanText({ from, to }: Span): string {
  return `${format.time(from)} to ${format.time(to)}`;
}

function found(steps: ArrayLike<number>): Found {
  return { query: '', problem: '', progress: 1, steps: Uint32Array.from(steps) };
}

function captionOf({ comparison, store }: TimesOptions, of: Stretches | undefined): string {
  const { header } = comparison;
  if (!header.same_kernel) return 'Different kernels';
  if (header.paired === 0) return 'Nothing in common';
  if (store.state.alignment === 'start') return '';
  if (of === undefined || of.count === 0)
    return store.state.alignment === 'line' ? 'No line in both' : 'No loop in both';
  return store.state.alignment === 'line' ? 'Lines of A’s critical path' : 'Iterations';
}

/** "In B: 213 ns, 14 ns less, at 32.88 µs". */
function partnerFact({ comparison, runs }: TimesOptions, side: Side, step: number): HTMLElement {
  const mate = comparison.partner(side, step);
  const run = runs[other(side)];
  const name = `In ${letter(other(side))}`;
  const row = (text: string): HTMLElement =>
    el('div', { class: 'nki-tl-card-fact' }, el('span', {}, name), el('span', {}, text));
  if (mate < 0) return row(comparison.header.same_kernel ? 'no such instruction' : 'not compared');
  if (!run.has(mate)) return row(`step ${format.ordinal(mate)}`);
  const { duration, start, first } = run.rows;
  const own = runs[side].rows;
  const sign = side === 'before' ? 1 : -1;
  const longer = sign * (duration[mate - first] - own.duration[step - own.first]);
  const told = Math.round(longer / 1000) === 0 ? 'the same' : `${format.timeDifference(longer)} in B`;
  return row(`${format.time(duration[mate - first])} at ${format.time(start[mate - first])}, ${told}`);
}
