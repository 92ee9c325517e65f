/** The layer over the lanes: cursor, selection, its dependencies, the area, what the pointer is on. */
import { notRunText } from '../../cancelled';
import { widthOf } from '../../canvas/text';
import { time } from '../../format';
import type { Span, State } from '../../types';
import { type Arrow, type Arrows, layoutArrows, moreBox, MOST_ARROWS, neighbours } from './arrows';
import type { Bar, Wait } from './bars';
import { type Box, type Figure, placeOf, stripOf } from './figure';
import { extent, paintBar, paintBars, paintWaits } from './paint-lane';
import { clearTicks, paintFailed, timeOnAxis } from './paint';
import { FONTS, line, type DrawContext, plate, plateSpan, useFont } from './draw_context';
import { placeFor, type Point, route } from './routes';
import { SIZES } from './strips';
import { spanOf, xOf } from './zoom';

const SELECTED_EDGE = 1.8;
const NARROWEST = 3;
/** How much of its colour the ground covers of what is not done. */
const UNDONE = 0.72;
const PLATE = { height: 18, radius: 5 } as const;

export interface Shown {
  readonly state: State;
  /** What the pointer is on: a bar, a column; null for nothing. */
  readonly pointed: Box | null;
}

/** Paints it all. Returns the arrows, so that what they leave out can be told. */
export function paintOverlay(drawing: DrawContext, figure: Figure, { state, pointed }: Shown): Arrows {
  const { run } = figure;
  if (state.doneUntil !== null) paintUndone(drawing, figure, state.doneUntil);
  if (state.area) paintArea(drawing, figure, state.area);
  let arrows: Arrows = { drawn: [], more: 0 };
  if (run.has(state.selected)) {
    arrows = layoutArrows(figure, state.selected);
    const bright = neighbours(run, state.selected).slice(0, 4 * MOST_ARROWS);
    for (const end of bright) paintRow(drawing, figure, end.edge.step);
    paintRow(drawing, figure, state.selected);
    if (run.fault >= 0) paintFailed(drawing, figure);
    paintCursor(drawing, figure, state.time);
    const place = placeOf(figure, state.selected);
    paintArrows(drawing, figure, arrows, { own: place, hovered: state.hover.step });
    if (place !== null) outline(drawing, place, SELECTED_EDGE);
  } else paintCursor(drawing, figure, state.time);
  if (pointed !== null) outline(drawing, pointed, 1);
  const hovered = state.hover.step;
  const place = hovered >= 0 && hovered !== state.selected ? placeOf(figure, hovered) : null;
  if (place !== null && pointed === null) outline(drawing, place, 1);
  paintPlates(drawing, figure, state);
  return arrows;
}

/** What is not done yet, or was not when the run was cancelled: sunk ground, and the line that it moves on from. */
function paintUndone(drawing: DrawContext, figure: Figure, until: number): void {
  const { run, scale, height } = figure;
  if (until >= run.makespan) return;
  const { context, palette } = drawing;
  const x = xOf(scale, until);
  if (x >= scale.width) return;
  context.globalAlpha = UNDONE;
  context.fillStyle = palette.sunk;
  context.fillRect(Math.max(0, x), SIZES.axis, scale.width - Math.max(0, x), height - SIZES.axis);
  context.globalAlpha = 1;
  if (x < 0) return;
  context.fillStyle = palette.ink2;
  context.fillRect(Math.round(x * drawing.ratio) / drawing.ratio, SIZES.axis, 1, height - SIZES.axis);
  paintUndoneWord(drawing, figure, x);
}

/** How many instructions of a cancelled run were not run, on a plate in the row of the critical path. */
function paintUndoneWord(drawing: DrawContext, { run, scale, strips }: Figure, x: number): void {
  const text = notRunText(run);
  const strip = strips.find(one => one.kind === 'path');
  if (text === '' || strip === undefined) return;
  const { context, palette } = drawing;
  useFont(drawing, FONTS.axis, 600);
  const width = widthOf(context, text) + 12;
  if (x + width > scale.width) return;
  context.fillStyle = palette.bg;
  context.fillRect(x + 1, strip.top + 1, width, strip.height - 2);
  context.fillStyle = palette.ink2;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillText(text, x + 7, strip.top + strip.height / 2);
}

/** One row and its wait in full colour. */
function paintRow(drawing: DrawContext, figure: Figure, step: number): void {
  const place = placeOf(figure, step);
  const { run, scale } = figure;
  const strip = stripOf(figure, run.rows.lane[step - run.rows.first]);
  if (place === null || strip === null || place.x > scale.width) return;
  const font = strip.kind === 'lane' ? FONTS.bar : FONTS.track;
  const row = { top: place.y, height: place.height, font };
  const width = Math.max(place.width, NARROWEST);
  const bar: Bar = { ...place, width, step, last: step, count: 1, busy: 1, critical: false };
  const waits = strip.kind === 'lane' && place.width >= NARROWEST ? waitsOf(figure, step) : [];
  paintWaits(drawing, run, waits, row);
  if (place.x + width < 0) return;
  if (place.height >= SIZES.syncBar) paintBars(drawing, run, [bar], row);
  else paintBar(drawing, bar, row);
}

function waitsOf(figure: Figure, step: number): Wait[] {
  const { rows } = figure.run;
  const place = step - rows.first;
  const start = rows.start[place];
  const setup = start - rows.setup[place];
  const pieces = [
    { from: start - rows.wait[place], to: setup, stall: rows.stall[place] },
    { from: setup, to: start, stall: rows.setupStall[place] },
  ];
  const inside = (time: number): number => Math.min(Math.max(xOf(figure.scale, time), 0), figure.scale.width);
  return pieces
    .filter(piece => piece.to - piece.from > spanOf(figure.scale, 1.2))
    .map(({ from, to, stall }) => ({ x: inside(from), width: inside(to) - inside(from), step, stall }))
    .filter(wait => wait.width > 1);
}

/** An outline with a gap of one pixel, so that it is seen on every colour. */
function outline(drawing: DrawContext, place: Box, edge: number): void {
  const { context, palette } = drawing;
  const [x, exact] = extent(drawing, place);
  const width = Math.max(exact, NARROWEST);
  const gap = 1 + edge / 2;
  context.lineWidth = edge + 2;
  context.strokeStyle = palette.bg;
  const ring = (): void => {
    context.beginPath();
    context.roundRect(x - gap, place.y - gap, width + 2 * gap, place.height + 2 * gap, 3);
    context.stroke();
  };
  ring();
  context.lineWidth = edge;
  context.strokeStyle = palette.ink;
  ring();
}

function paintCursor(drawing: DrawContext, figure: Figure, at: number): void {
  const x = xOf(figure.scale, at);
  if (x < 0 || x > figure.scale.width) return;
  drawing.context.fillStyle = drawing.palette.ink;
  drawing.context.fillRect(Math.round((x - 0.75) * drawing.ratio) / drawing.ratio, SIZES.axis - 2, 1.5, figure.height);
}

/** Times on the axis: of the cursor, of the length of the area, of the fault. */
function paintPlates(drawing: DrawContext, figure: Figure, state: State): void {
  const { palette } = drawing;
  const { scale } = figure;
  useFont(drawing, FONTS.plate, 600);
  const edges = [1, scale.width - 1] as const;
  const ink = { ground: palette.ink, ink: palette.bg, ...PLATE };
  const y = (SIZES.axis - PLATE.height) / 2;
  const paintPlate = (text: string, middle: number): void => {
    const covered = plateSpan(drawing, text, middle, edges);
    clearTicks(drawing, figure, covered);
    useFont(drawing, FONTS.plate, 600);
    plate(drawing, text, middle, y, edges, ink);
  };
  const { area } = state;
  if (area && area.to > area.from && xOf(scale, area.to) > 0 && xOf(scale, area.from) < scale.width) {
    const centre = (Math.max(0, xOf(scale, area.from)) + Math.min(scale.width, xOf(scale, area.to))) / 2;
    paintPlate(`Δ ${time(area.to - area.from)}`, centre);
    return;
  }
  const x = xOf(scale, state.time);
  if (x >= 0 && x <= scale.width) paintPlate(timeOnAxis(state.time, scale), x);
}

function paintArea(drawing: DrawContext, figure: Figure, area: Span): void {
  const { context, palette } = drawing;
  const { scale, height } = figure;
  const from = Math.max(0, xOf(scale, area.from));
  const to = Math.min(scale.width, xOf(scale, area.to));
  if (area.to === area.from) {
    paintMarker(drawing, figure, xOf(scale, area.from));
    return;
  }
  if (to <= from) return;
  context.fillStyle = palette.ink;
  context.globalAlpha = 0.07;
  context.fillRect(from, SIZES.axis, to - from, height - SIZES.axis);
  context.globalAlpha = 1;
  context.strokeStyle = palette.ink;
  line(drawing, from, SIZES.axis - 1, to, SIZES.axis - 1);
  if (area.from >= scale.from) line(drawing, from, SIZES.axis - 4, from, height);
  if (area.to <= scale.to) line(drawing, to, SIZES.axis - 4, to, height);
}

/** A range of which only one end is marked. */
function paintMarker(drawing: DrawContext, { height }: Figure, x: number): void {
  drawing.context.strokeStyle = drawing.palette.ink;
  drawing.context.setLineDash([3, 3]);
  line(drawing, x, SIZES.axis - 4, x, height);
  drawing.context.setLineDash([]);
}

/** Binding edges and those to what the pointer is on have words, where they cover nothing. */
function paintArrows(
  drawing: DrawContext,
  figure: Figure,
  { drawn, more }: Arrows,
  { own, hovered }: { own: Box | null; hovered: number },
): void {
  const ways = drawn.map(arrow => route(figure, arrow));
  // The ones that decided lie over the others.
  for (let at = drawn.length - 1; at >= 0; at--) paintArrow(drawing, drawn[at], ways[at]);
  useFont(drawing, FONTS.axis, 500);
  const taken = own === null ? [] : more > 0 ? [own, moreBox(figure, own)] : [own];
  const said = new Set<string>();
  drawn.forEach((arrow, at) => {
    const isHovered = arrow.step === hovered;
    if ((!arrow.binding && !isHovered && arrow.beyond === null) || said.has(arrow.text)) return;
    said.add(arrow.text);
    paintWords(drawing, figure, { text: arrow.text, way: ways[at], isHovered }, taken);
  });
}

const CORNER = 3;
const HEAD = { length: 5, half: 3 } as const;

function paintArrow(drawing: DrawContext, arrow: Arrow, way: readonly Point[]): void {
  const { context, palette } = drawing;
  const width = arrow.binding ? 1.6 : 1.1;
  context.setLineDash(arrow.flow ? [] : [4, 3]);
  // A rim in the ground's colour keeps the line apart from bars of its own darkness.
  for (const [colour, wider] of [
    [palette.bg, 2],
    [palette.ink, 0],
  ] as const) {
    context.strokeStyle = colour;
    context.lineWidth = width + wider;
    context.beginPath();
    context.moveTo(way[0].x, way[0].y);
    for (let at = 1; at + 1 < way.length; at++) {
      context.arcTo(way[at].x, way[at].y, way[at + 1].x, way[at + 1].y, cornerOf(way, at));
    }
    context.lineTo(way[way.length - 1].x, way[way.length - 1].y);
    context.stroke();
  }
  context.setLineDash([]);
  const [before, tip] = way.slice(-2);
  const back = tip.y + (before.y < tip.y ? -HEAD.length : HEAD.length);
  context.fillStyle = palette.ink;
  context.beginPath();
  context.moveTo(tip.x, tip.y);
  context.lineTo(tip.x - HEAD.half, back);
  context.lineTo(tip.x + HEAD.half, back);
  context.fill();
}

/** Corners are rounder where the pieces beside them are long. */
function cornerOf(way: readonly Point[], at: number): number {
  const length = (one: Point, two: Point): number => Math.abs(one.x - two.x) + Math.abs(one.y - two.y);
  return Math.min(CORNER, length(way[at - 1], way[at]) / 2, length(way[at], way[at + 1]) / 2);
}

const WORDS_HEIGHT = 16;

function paintWords(
  drawing: DrawContext,
  figure: Figure,
  { text, way, isHovered }: { text: string; way: readonly Point[]; isHovered: boolean },
  taken: Box[],
): void {
  if (text === '') return;
  const size = { width: drawing.context.measureText(text).width + 14, height: WORDS_HEIGHT };
  const place = placeFor(figure, way, size, taken) ?? (isHovered ? middleOf(way, size) : null);
  if (place === null) return;
  taken.push(place);
  const { bg, ink } = drawing.palette;
  const look = { ground: bg, ink, edge: ink, height: WORDS_HEIGHT, radius: 8 };
  plate(drawing, text, place.x + place.width / 2, place.y, [0, figure.scale.width], look);
}

/** Over the way itself: only for what the pointer asks. */
function middleOf(way: readonly Point[], size: { width: number; height: number }): Box {
  const one = way[1];
  const two = way[way.length - 2];
  return { x: (one.x + two.x - size.width) / 2, y: (one.y + two.y - size.height) / 2, ...size };
}
