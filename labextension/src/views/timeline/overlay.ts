/** The layer over the lanes: cursor, selection, its dependencies, the area, what the pointer is on. */
import { time } from '../../format';
import type { Span, State } from '../../types';
import { type Arrow, type Arrows, bend, layoutArrows, middle, moreBox, MOST_ARROWS, neighbours } from './arrows';
import type { Bar, Wait } from './bars';
import { type Box, type Figure, placeOf, stripOf } from './figure';
import { extent, paintBar, paintBars, paintWaits } from './paint-lane';
import { paintFailed } from './paint';
import { FONTS, line, type DrawContext, plate, useFont } from './draw_context';
import { SIZES } from './strips';
import { spanOf, xOf } from './zoom';

const SELECTED_EDGE = 1.8;
const NARROWEST = 3;
const PLATE = { height: 18, radius: 5 } as const;

export interface Shown {
  readonly state: State;
  /** What the pointer is on: a bar, a column; null for nothing. */
  readonly pointed: Box | null;
}

/** Paints it all. Returns the arrows, so that what they leave out can be told. */
export function paintOverlay(drawing: DrawContext, figure: Figure, { state, pointed }: Shown): Arrows {
  const { run } = figure;
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
    paintArrows(drawing, figure, arrows, place);
    if (place !== null) outline(drawing, place, SELECTED_EDGE);
  } else paintCursor(drawing, figure, state.time);
  if (pointed !== null) outline(drawing, pointed, 1);
  const hovered = state.hover.step;
  const place = hovered >= 0 && hovered !== state.selected ? placeOf(figure, hovered) : null;
  if (place !== null && pointed === null) outline(drawing, place, 1);
  paintPlates(drawing, figure, state);
  return arrows;
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
  const { area } = state;
  if (area && area.to > area.from && xOf(scale, area.to) > 0 && xOf(scale, area.from) < scale.width) {
    const centre = (Math.max(0, xOf(scale, area.from)) + Math.min(scale.width, xOf(scale, area.to))) / 2;
    plate(drawing, `Δ ${time(area.to - area.from)}`, centre, y, edges, ink);
    return;
  }
  const x = xOf(scale, state.time);
  if (x >= 0 && x <= scale.width) plate(drawing, time(state.time), x, y, edges, ink);
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

function paintArrows(drawing: DrawContext, figure: Figure, { drawn, more }: Arrows, own: Box | null): void {
  for (const arrow of drawn) paintArrow(drawing, arrow);
  useFont(drawing, FONTS.axis, 500);
  const taken = own === null ? [] : more > 0 ? [own, moreBox(figure, own)] : [own];
  const said = new Set<string>();
  for (const arrow of drawn) {
    if (!said.has(arrow.text)) paintWords(drawing, figure, arrow, taken);
    said.add(arrow.text);
  }
}

function paintArrow(drawing: DrawContext, arrow: Arrow): void {
  const { context, palette } = drawing;
  const [one, two] = bend(arrow);
  const { from, to } = arrow;
  context.lineWidth = arrow.binding ? 1.6 : 1.2;
  context.setLineDash(arrow.flow ? [] : [4, 3]);
  // A rim in the ground's colour keeps the line apart from bars of its own darkness.
  for (const [colour, wider] of [
    [palette.bg, 2],
    [palette.ink, 0],
  ] as const) {
    context.strokeStyle = colour;
    context.lineWidth = (arrow.binding ? 1.6 : 1.2) + wider;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.bezierCurveTo(one.x, one.y, two.x, two.y, to.x - 4, to.y);
    context.stroke();
  }
  context.setLineDash([]);
  context.fillStyle = palette.ink;
  context.beginPath();
  context.moveTo(to.x, to.y);
  context.lineTo(to.x - 6, to.y - 3.2);
  context.lineTo(to.x - 6, to.y + 3.2);
  context.fill();
}

/** Shorter arrows have no words, which would hide what they join. */
const NAMED_FROM = 8;

/** Tried in turn, from the middle of the curve. */
const ASIDE = [0, -16, 16, -24, 24, -34, 34, -46, 46] as const;

/** A plate in the middle of the curve or near it, where no other one and no end of the curve is. */
function paintWords(drawing: DrawContext, figure: Figure, arrow: Arrow, taken: Box[]): void {
  if (arrow.text === '' || Math.abs(arrow.to.x - arrow.from.x) < NAMED_FROM) return;
  const at = middle(arrow);
  const height = 16;
  const width = drawing.context.measureText(arrow.text).width + 14;
  const x = Math.min(Math.max(at.x - width / 2, 2), figure.scale.width - width - 2);
  const ends = [arrow.from, arrow.to].map(end => ({ x: end.x - 4, y: end.y - 6, width: 8, height: 12 }));
  const lowest = figure.height - height - 2;
  const places = ASIDE.map(by => ({ x, y: at.y - height / 2 + by, width, height }));
  const free = (place: Box): boolean => ![...taken, ...ends].some(one => overlap(one, place));
  const place = places.find(one => one.y > SIZES.axis && one.y < lowest && free(one));
  if (place === undefined) return;
  taken.push(place);
  const { y } = place;
  const { bg, ink } = drawing.palette;
  plate(drawing, arrow.text, x + width / 2, y, [0, figure.scale.width], {
    ground: bg,
    ink,
    edge: ink,
    height,
    radius: 8,
  });
}

function overlap(one: Box, two: Box): boolean {
  const apart = one.x + one.width + 4 < two.x || two.x + two.width + 4 < one.x;
  return !apart && one.y + one.height + 2 > two.y && two.y + two.height + 2 > one.y;
}
