/** The timeline: who works, who waits, for whom. */
import { createSurface, type Surface } from '../../canvas/surface';
import { forgetWidths } from '../../canvas/text';
import { ask } from '../../commands';
import { el, setAttribute, setStyle, setText } from '../../dom';
import { toggled } from '../../iterations';
import { WORKS } from '../../run/path';
import { paintLast, widthOf } from '../../drawing';
import { cancelSoon, soon } from '../../store';
import { useStyle } from '../../styles';
import type { Changes, Context, Found, Rows, Run, State, View } from '../../types';
import { moreBox, MOST_ARROWS } from './arrows';
import { type Card, createCard } from './card';
import { colouring } from './colour';
import { type Box, type Figure, layoutFigure, placeOf } from './figure';
import { createFooter } from './footer';
import { createGutter } from './gutter';
import { createHeader } from './header';
import type { Hit } from './hit';
import { type Marks, marksOf } from './marks';
import { createOverview, windowText } from './overview';
import { paintOverlay } from './overlay';
import { paintFigure } from './paint';
import type { DrawContext } from './draw_context';
import { onPointer, stepOf } from './pointer';
import { createSearchBar } from './search_bar';
import { foldOf, type Layout, layoutStrips } from './strips';
import css from './timeline.css';
import { createTree } from './tree';
import type { Scale } from './zoom';

export interface TimelineView extends View {
  /** Put the keyboard into the search. */
  search(): void;
}

export function createTimeline(context: Context): TimelineView {
  return new Timeline(context);
}

/** Milliseconds after the rows came. */
const WARM_AFTER = 400;

const WINDOW: readonly (keyof State)[] = [
  'window', 'colourBy', 'showCritical', 'layout', 'folded', 'low', 'theme', 'found',
]; // prettier-ignore
/** What changes which rows there are. */
const ROWS: readonly (keyof State)[] = ['showCritical', 'layout', 'folded', 'low'];

class Timeline implements TimelineView {
  readonly element: HTMLElement;
  private run: Run;
  private readonly context: Context;
  private readonly lanes: Surface = createSurface();
  private readonly over: Surface = createSurface();
  private readonly plot = el('div', { class: 'nki-tl-plot', tabindex: '0', role: 'group', 'aria-label': 'Lanes' });
  private readonly more = el('button', { type: 'button', class: 'nki-tl-more', hidden: true });
  private readonly nothing = el('p', { class: 'nki-tl-nothing', hidden: true }, 'No instructions');
  private readonly body: HTMLElement;
  private readonly card: Card = createCard();
  private readonly gutter;
  private readonly tree = createTree();
  private readonly header;
  private readonly searchBar;
  private readonly overview;
  private readonly footer;
  private readonly observer: ResizeObserver;
  private layout: Layout = { strips: [], height: 0 };
  private figure: Figure | null = null;
  private pointed: Box | null = null;
  private cardFor = '';
  private areaLane = -1;
  private warming = 0;
  private summing = 0;
  private isSummed = false;
  private dimmed = false;
  private marked: { found: Found | null; rows: Rows | null; marks: Marks | null } = {
    found: null,
    rows: null,
    marks: null,
  };
  /** What must be drawn anew whatever has changed. */
  private stale = { layout: true, figure: true, whole: true };

  constructor(context: Context) {
    this.context = context;
    this.run = context.run;
    const run = (): Run => this.run;
    const { store } = context;
    this.gutter = createGutter(strip => store.set({ folded: toggled(store.state.folded, foldOf(strip)) }));
    this.header = createHeader(context);
    this.searchBar = createSearchBar(context, () => this.plot.focus());
    this.overview = createOverview(context, run);
    this.footer = createFooter(context);
    this.over.element.classList.add('nki-tl-over');
    this.plot.append(this.lanes.element, this.over.element, this.more, this.nothing);
    setAttribute(this.plot, 'aria-describedby', this.tree.itemId);
    this.body = el('div', { class: 'nki-tl-body' }, this.gutter.element, this.plot, this.card.element);
    this.element = el(
      'section',
      { class: 'nki-tl', role: 'region' },
      this.header.element,
      this.searchBar.element,
      this.overview.element,
      this.body,
      this.footer.element,
      this.tree.element,
    );
    this.more.addEventListener('click', () => ask(this.more, 'details'));
    this.listenToPointer();
    this.warm();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.plot);
    document.fonts?.addEventListener('loadingdone', this.fontsCame);
  }

  /** Has the run index its dependencies while nothing else is to be done, before the first selection asks for them. */
  private warm(): void {
    window.clearTimeout(this.warming);
    this.warming = window.setTimeout(() => {
      if (this.run.has(this.run.rows.first)) this.run.successors(this.run.rows.first);
    }, WARM_AFTER);
  }

  private listenToPointer(): void {
    onPointer({
      context: this.context,
      element: this.plot,
      figure: () => this.figure,
      point: (hit, box) => this.point(hit, box),
      rest: (hit, box) => this.rest(hit, box),
      areaOn: lane => (this.areaLane = lane),
    });
  }

  private readonly fontsCame = (): void => {
    forgetWidths();
    this.redraw({ layout: false, figure: true, whole: false });
  };

  private resized(): void {
    const width = this.plot.clientWidth;
    const stands = width === this.lanes.width && !this.stale.figure;
    if (width > 0 && !stands) this.redraw({ layout: false, figure: true, whole: true });
  }

  private redraw(stale: { layout: boolean; figure: boolean; whole: boolean }): void {
    for (const part of ['layout', 'figure', 'whole'] as const) this.stale[part] ||= stale[part];
    this.draw(this.context.store.state, new Set());
  }

  reload(run: Run): void {
    this.run = run;
    this.redraw({ layout: true, figure: true, whole: true });
    this.warm();
  }

  search(): void {
    this.searchBar.focus();
  }

  dispose(): void {
    window.clearTimeout(this.warming);
    if (this.summing) cancelSoon(this.summing);
    this.observer.disconnect();
    document.fonts?.removeEventListener('loadingdone', this.fontsCame);
  }

  draw(state: State, changes: Changes): void {
    if (this.element.isConnected) useStyle('timeline', css, this.element);
    this.arrange(state, changes);
    if (widthOf(this.plot) === 0) {
      // Out of sight: all of it when it comes back.
      this.stale = { layout: true, figure: true, whole: true };
      return;
    }
    if (this.stale.whole || changes.has('theme') || changes.has('found')) {
      this.paintOverview();
    }
    this.overview.place(this.run, state);
    const marks = this.marks(state);
    const dimmed = marks !== null || (state.selected >= 0 && this.run.has(state.selected));
    const moved = WINDOW.some(name => changes.has(name));
    if (moved || this.stale.figure || this.stale.layout || dimmed !== this.dimmed) this.drawLanes(state, dimmed);
    if (state.playing || changes.has('window')) this.hideCard();
    this.drawOver(state);
    this.tree.update(this.run, state);
    const redrawsFooter = changes.has('area') || changes.has('colourBy') || changes.has('theme') || this.stale.layout;
    if (redrawsFooter) this.footer.draw(this.run, state, this.drawing(this.over, state).colouring, this.areaLane);
    this.stale = { layout: false, figure: false, whole: false };
  }

  /** At first the whole run is summed up in the frame after, so that what is looked at first is seen sooner. */
  private paintOverview(): void {
    const paint = (): void => {
      this.summing = 0;
      this.overview.paint(this.run, this.context.palette(), this.context.store.state.found);
    };
    this.overview.tell(this.run);
    if (this.isSummed) paint();
    else this.summing ||= soon(paint);
    this.isSummed = true;
  }

  /** Which rows there are, and their names. */
  private arrange(state: State, changes: Changes): void {
    this.header.draw(this.run, state);
    this.searchBar.draw(this.run, state);
    if (!this.stale.layout && !ROWS.some(name => changes.has(name))) return;
    this.stale.layout = true;
    this.element.dataset.layout = state.layout;
    this.layout = layoutStrips(this.run, state);
    setStyle(this.body, { height: `${this.layout.height}px` });
    this.gutter.arrange(this.layout, this.run);
    this.nothing.hidden = this.run.steps > 0;
  }

  /** What the search found, for the lanes. */
  private marks({ found }: State): Marks | null {
    if (this.marked.found !== found || this.marked.rows !== this.run.rows) {
      this.marked = { found, rows: this.run.rows, marks: marksOf(this.run, found) };
    }
    return this.marked.marks;
  }

  private drawing(surface: Surface, state: State, dimmed = false, marks: Marks | null = null): DrawContext {
    const palette = this.context.palette();
    const { context, ratio } = surface;
    return { context, ratio, palette, dimmed, marks, colouring: colouring(this.run, state.colourBy, palette) };
  }

  private drawLanes(state: State, dimmed: boolean): void {
    const width = widthOf(this.plot);
    this.dimmed = dimmed;
    this.lanes.resize(width, this.layout.height);
    const figure = sameFigure(this.figure, this.run, this.layout, { ...state.window, width });
    this.figure = figure;
    paintLast(this.lanes, () => {
      this.lanes.clear();
      paintFigure(this.drawing(this.lanes, state, dimmed, this.marks(state)), figure);
    });
    this.gutter.fill(this.figure);
    this.tree.fill(this.figure);
    setAttribute(this.element, 'aria-label', `Timeline of ${this.run.kernel}, ${windowText(state.window)}`);
  }

  private drawOver(state: State): void {
    const { figure } = this;
    if (figure === null) return;
    this.over.resize(widthOf(this.plot), this.layout.height);
    paintLast(this.over, () => {
      this.over.clear();
      const { more } = paintOverlay(this.drawing(this.over, state), figure, { state, pointed: this.pointed });
      this.drawMore(state, more);
    });
  }

  /** How many dependencies the arrows leave out, beside the selection. */
  private drawMore(state: State, more: number): void {
    const { figure } = this;
    const place = more > 0 && figure ? placeOf(figure, state.selected) : null;
    this.more.hidden = place === null;
    if (figure === null || place === null) return;
    setText(this.more, `+ ${more} more`);
    setAttribute(this.more, 'title', `${more + MOST_ARROWS} dependencies; open the list`);
    const { x, y } = moreBox(figure, place);
    setStyle(this.more, { left: `${x}px`, top: `${y}px` });
  }

  private point(hit: Hit, box: Box | null): void {
    const { store } = this.context;
    const outlined = hit.kind === 'column' || hit.kind === 'loop' || (hit.kind === 'bar' && hit.bar.count > 1);
    const pointed = outlined ? box : null;
    const step = this.figure && (hit.kind === 'bar' || isWork(hit)) ? stepOf(this.figure, hit) : -1;
    this.plot.dataset.on = hit.kind === 'other' && hit.strip.kind === 'axis' ? 'axis' : hit.kind;
    if (this.cardFor !== keyOf(hit)) this.hideCard();
    const changed = pointed?.x !== this.pointed?.x || pointed?.y !== this.pointed?.y;
    this.pointed = pointed;
    if (step !== store.state.hover.step) store.set({ hover: { step, tile: -1 } });
    else if (changed) this.drawOver(store.state);
  }

  private rest(hit: Hit, box: Box | null): void {
    if (box === null || this.figure === null || this.cardFor === keyOf(hit)) return;
    const anchor = { ...box, x: box.x + this.plot.offsetLeft };
    this.cardFor = this.card.show(this.figure, hit, anchor, this.body) ? keyOf(hit) : '';
  }

  private hideCard(): void {
    this.cardFor = '';
    this.card.hide();
  }
}

/** The figure of a window; the one before if it is of the same window, rows and strips. */
function sameFigure(before: Figure | null, run: Run, layout: Layout, scale: Scale): Figure {
  const last = before?.scale;
  const same = last?.from === scale.from && last.to === scale.to && last.width === scale.width;
  if (before !== null && same && before.rows === run.rows && before.strips === layout.strips) return before;
  return layoutFigure(run, layout, scale);
}

/** What works on the critical path; a wait there is not the row that waits. */
function isWork(hit: Hit): hit is Hit & { kind: 'path' } {
  return hit.kind === 'path' && hit.piece.reason === WORKS;
}

/** Equal for two hits on the same thing. */
function keyOf(hit: Hit): string {
  switch (hit.kind) {
    case 'bar':
      return `bar ${hit.bar.step}`;
    case 'wait':
      return `wait ${hit.wait.step} ${hit.wait.stall}`;
    case 'column':
      return `column ${hit.lane} ${hit.column}`;
    case 'loop':
      return `loop ${hit.cell.first} ${hit.cell.last}`;
    case 'path':
      return `path ${hit.piece.from}`;
    case 'lane':
    case 'other':
    case 'none':
      return '';
  }
}
