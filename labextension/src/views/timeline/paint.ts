/** The static layer: everything that does not change while the cursor moves. */
import { NO_HUE } from '../../_generated/schema';
import { hatch } from '../../canvas/hatch';
import { widthOf } from '../../canvas/text';
import { ticks } from '../../canvas/scale';
import { timeParts } from '../../format';
import { WORKS } from '../../run/path';
import type { Buckets, Run } from '../../types';
import { shortReason } from '../../words';
import type { Curve } from './counters';
import { barTop, type Figure, placeOf } from './figure';
import { paintBars, paintColumns, paintCritical, paintWaits } from './paint-lane';
import { paintLoops } from './paint-loops';
import type { Piece } from './path';
import { paintRank } from './rank_rows';
import { box, DIM, FONTS, isDim, line, type DrawContext, useFont, whole } from './draw_context';
import {
  type CounterStrip,
  type DmaStrip,
  type FlowStrip,
  type LaneStrip,
  type PathStrip,
  SIZES,
  type Strip,
} from './strips';
import { paintTransfers } from './transfers';
import { awaitedWords } from './words';
import { type Scale, timeOf, xOf } from './zoom';

export function paintFigure(drawing: DrawContext, figure: Figure): void {
  paintGround(drawing, figure);
  paintGrid(drawing, figure);
  for (const strip of figure.strips) paintStrip(drawing, figure, strip);
  paintTransfers(drawing, figure);
  paintFault(drawing, figure);
}

function paintStrip(drawing: DrawContext, figure: Figure, strip: Strip): void {
  switch (strip.kind) {
    case 'path': {
      paintPath(drawing, figure, strip);
      return;
    }
    case 'rank': {
      paintRank(drawing, figure, strip);
      return;
    }
    case 'loop': {
      paintLoops(drawing, figure, strip);
      return;
    }
    case 'lane': {
      paintLane(drawing, figure, strip);
      return;
    }
    case 'dma': {
      paintDma(drawing, figure, strip);
      return;
    }
    case 'counter': {
      paintCounter(drawing, figure, strip);
      return;
    }
    case 'flow': {
      paintFlow(drawing, figure, strip);
      return;
    }
    case 'axis':
    case 'core':
  }
}

/** Time that the run never reached is sunk. */
function paintGround(drawing: DrawContext, figure: Figure): void {
  const { run, scale } = figure;
  drawing.context.fillStyle = drawing.palette.sunk;
  const begin = Math.max(0, xOf(scale, run.makespan));
  if (begin < scale.width) drawing.context.fillRect(begin, SIZES.axis, scale.width - begin, figure.height - SIZES.axis);
  const before = Math.min(scale.width, xOf(scale, 0));
  if (before > 0) drawing.context.fillRect(0, SIZES.axis, before, figure.height - SIZES.axis);
}

function paintGrid(drawing: DrawContext, figure: Figure): void {
  const { context, palette } = drawing;
  const { scale } = figure;
  context.strokeStyle = palette.line;
  for (const strip of figure.strips) {
    line(drawing, 0, strip.top + strip.height - 0.5, scale.width, strip.top + strip.height - 0.5);
  }
  for (const value of ticks(scale.from, scale.to, scale.width).values) {
    const x = xOf(scale, value);
    line(drawing, x, SIZES.axis, x, figure.height);
  }
  useFont(drawing, FONTS.axis);
  context.fillStyle = palette.ink3;
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  for (const { text, at } of tickTexts(drawing, scale)) context.fillText(text, at, SIZES.axis / 2 + 0.5);
}

interface TickText {
  readonly text: string;
  /** Its middle. */
  readonly at: number;
  readonly half: number;
}

/** The numbers of the axis, moved inwards at the ends; without those that would be far from their lines. */
function tickTexts(drawing: DrawContext, scale: Scale): TickText[] {
  useFont(drawing, FONTS.axis);
  const { values, label } = ticks(scale.from, scale.to, scale.width);
  return values.flatMap(value => {
    const text = label(value);
    const x = xOf(scale, value);
    const half = widthOf(drawing.context, text) / 2;
    const at = Math.min(Math.max(x, half + 1), scale.width - half - 4);
    return Math.abs(at - x) > half + 2 ? [] : [{ text, at, half }];
  });
}

/** A time as it is written everywhere, but where the axis counts finer as fine as that: "26.025 µs". */
export function timeOnAxis(value: number, scale: Scale): string {
  const { value: number, unit } = timeParts(value);
  const axis = ticks(scale.from, scale.to, scale.width);
  const decimals = number.split('.')[1]?.length ?? 0;
  return axis.unit === unit && axis.decimals > decimals ? `${axis.label(value)} ${unit}` : `${number} ${unit}`;
}

/** Take the numbers of the axis away that a plate on it would cover in part. */
export function clearTicks(drawing: DrawContext, { scale }: Figure, [from, to]: readonly [number, number]): void {
  drawing.context.fillStyle = drawing.palette.bg;
  for (const { at, half } of tickTexts(drawing, scale)) {
    const [left, right] = [at - half - 1, at + half + 1];
    if (right > from && left < to) drawing.context.fillRect(left, 2, right - left, SIZES.axis - 6);
  }
}

const PATH_BAR = 8;

/** Work as boxes, waits as hatches with what they are for where there is room: together the whole run. */
function paintPath(drawing: DrawContext, figure: Figure, strip: PathStrip): void {
  const { context, palette } = drawing;
  const middle = strip.top + strip.height / 2;
  const top = middle - PATH_BAR / 2;
  for (const piece of figure.path) {
    const x = whole(drawing, piece.x);
    const wide = Math.max(1, whole(drawing, piece.x + piece.width - (piece.width > 3.2 ? 0.8 : 0)) - x);
    if (piece.reason === WORKS) {
      context.fillStyle = palette.hue[piece.hue];
      box(drawing, x, top, wide, PATH_BAR, 1);
    } else {
      context.fillStyle = hatch(context, palette.hue[piece.hue], 45);
      context.fillRect(x, top + 0.5, wide, PATH_BAR - 1);
    }
  }
  useFont(drawing, FONTS.track);
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (const piece of figure.path) if (piece.reason !== WORKS) paintPathReason(drawing, figure, piece, middle);
}

/** The hatch left and right of a reason's words. */
const PATH_MARGIN = 14;

function paintPathReason(drawing: DrawContext, { run, scale }: Figure, piece: Piece, middle: number): void {
  const { context, palette } = drawing;
  const left = Math.max(piece.x, 0);
  const right = Math.min(piece.x + piece.width, scale.width);
  const reason = shortReason(run.stalls[piece.reason] ?? 'none');
  const text = [
    `waits for ${(piece.count === 1 && awaitedWords(run, piece.step, piece.reason)) || reason}`,
    reason,
  ].find(words => widthOf(context, words) + 2 * PATH_MARGIN <= right - left);
  if (text === undefined) return;
  const width = widthOf(context, text) + 8;
  const at = (left + right) / 2;
  context.fillStyle = palette.bg;
  context.fillRect(at - width / 2, middle - 7, width, 14);
  context.fillStyle = palette.ink2;
  context.fillText(text, at, middle + 0.5);
}

function paintLane(drawing: DrawContext, figure: Figure, strip: LaneStrip): void {
  const found = figure.lanes.get(strip);
  if (found === undefined) return;
  const { run } = figure;
  if (found.columns) {
    const row = { top: strip.top + 2, height: strip.height - 4, lanes: [strip.lane.id] };
    paintColumns(
      drawing,
      found.columns,
      row,
      colourOfColumn(drawing, figure, strip.lane.id),
      causeOf(drawing, figure, strip.lane.id),
    );
    return;
  }
  const { bars, waits } = found.bars ?? { bars: [], waits: [] };
  const row = { top: barTop(strip), height: strip.bar, font: FONTS.bar };
  paintWaits(drawing, run, waits, row);
  paintBars(drawing, run, bars, row);
  if (figure.strips.some(one => one.kind === 'path')) paintCritical(drawing, bars, row.top + row.height + 1.5);
}

/** Of a column: its lane's hue, else the colour of the row that runs in its middle. */
function colourOfColumn(drawing: DrawContext, figure: Figure, lane: number): (column: number) => string {
  const own = drawing.palette.hue[figure.run.lanes[lane].hue];
  if (drawing.colouring.keys.length === 0) return () => own;
  return column => {
    const step = figure.run.laneAt(lane, timeOf(figure.scale, column + 0.5));
    return step < 0 ? drawing.palette.faint : drawing.colouring.of(step);
  };
}

function causeOf(drawing: DrawContext, figure: Figure, lane: number): (column: number, stall: number) => string {
  return (column, stall) => {
    const step = figure.run.laneAt(lane, timeOf(figure.scale, column + 1));
    return drawing.palette.hue[step < 0 ? NO_HUE : figure.run.stallHue(step, stall)];
  };
}

function paintDma(drawing: DrawContext, figure: Figure, strip: DmaStrip): void {
  const found = figure.dma.get(strip);
  if (found === undefined) return;
  const lane = strip.lanes[0].id;
  if (found.columns) {
    const row = { top: strip.tracks[0], height: strip.tracksHeight, lanes: found.lanes };
    paintColumns(drawing, found.columns, row, colourOfColumn(drawing, figure, lane), causeOf(drawing, figure, lane));
  }
  found.tracks?.forEach((track, number) => {
    const row = { top: strip.tracks[number], height: SIZES.track, font: FONTS.track };
    paintBars(drawing, figure.run, track.bars, row);
  });
  if (strip.pitch > 0) paintQueues(drawing, figure, strip);
}

/** A thin row for each queue; transfers out of the core are fainter. */
function paintQueues(drawing: DrawContext, figure: Figure, strip: DmaStrip): void {
  const { context } = drawing;
  const found = figure.dma.get(strip);
  const hidden = new Set(found?.hidden);
  found?.queues.forEach((queue, number) => {
    const top = strip.queues + number * strip.pitch;
    for (const bar of queue.bars?.bars ?? []) {
      context.fillStyle = drawing.colouring.of(bar.step);
      // What is on no track above is here in full.
      context.globalAlpha = (hidden.has(bar.step) ? 1 : 0.35 + 0.4 * bar.busy) * (isDim(drawing, bar) ? DIM : 1);
      const x = whole(drawing, bar.x);
      context.fillRect(x, top, Math.max(1, whole(drawing, bar.x + bar.width) - x), SIZES.queue);
    }
    if (queue.columns) {
      const colour = colourOfColumn(drawing, figure, queue.lane);
      paintThinColumns(drawing, queue.columns.sums, { top, lanes: [queue.lane] }, colour);
    }
  });
  context.globalAlpha = 1;
}

/** Columns in eighths, so that equal neighbours are one piece. */
function paintThinColumns(
  drawing: DrawContext,
  sums: Buckets,
  row: { top: number; lanes: readonly number[] },
  colour: (column: number) => string,
): void {
  const bright = drawing.marks?.columns(row.lanes, sums);
  const isDimAt = (at: number): boolean => drawing.dimmed && bright?.[at] !== 1;
  const wide = drawing.context.canvas.width / drawing.ratio / sums.count;
  const level = (at: number): number => Math.ceil((8 * sums.busy[at]) / sums.width);
  for (let at = 0; at < sums.count;) {
    let end = at + 1;
    const same = (other: number): boolean =>
      level(other) === level(at) && colour(other) === colour(at) && isDimAt(other) === isDimAt(at);
    while (end < sums.count && same(end)) end++;
    drawing.context.fillStyle = colour(at);
    drawing.context.globalAlpha = (level(at) / 8) * 0.75 * (isDimAt(at) ? DIM : 1);
    if (level(at) > 0) drawing.context.fillRect(at * wide, row.top, (end - at) * wide, SIZES.queue);
    at = end;
  }
}

function paintCounter(drawing: DrawContext, figure: Figure, strip: CounterStrip): void {
  const curve = figure.curves.get(strip);
  if (curve === undefined || curve.points.length === 0 || !(curve.top > 0)) return;
  const { context, palette } = drawing;
  const path = curvePath(curve, figure.scale.width, strip.top + 6, strip.top + strip.height - 3);
  const rate = strip.counter === 'rate';
  context.fillStyle = rate ? palette.hue.dma : palette.ink3;
  context.globalAlpha = 0.22;
  context.fill(path.area);
  context.globalAlpha = 1;
  context.strokeStyle = rate ? palette.hue.dma : palette.ink3;
  context.lineWidth = 1;
  context.stroke(path.edge);
}

/** A curve in the hue of DMA under a line at the most there can be. */
function paintFlow(drawing: DrawContext, figure: Figure, strip: FlowStrip): void {
  const curve = figure.flows.get(strip);
  if (curve === undefined || !(curve.top > 0)) return;
  const { context, palette } = drawing;
  const [top, bottom] = [strip.top + 5, strip.top + strip.height - 3];
  const points = curve.points.map((value, at) => (at % 2 === 0 ? value : value / curve.top));
  const path = curvePath({ points }, figure.scale.width, top, bottom);
  context.fillStyle = palette.hue.dma;
  context.globalAlpha = 0.22;
  context.fill(path.area);
  context.globalAlpha = 1;
  context.strokeStyle = palette.hue.dma;
  context.lineWidth = 1;
  context.stroke(path.edge);
  if (curve.limit <= 0) return;
  const y = bottom - (bottom - top) * (curve.limit / curve.top);
  context.strokeStyle = palette.ink3;
  context.setLineDash([2, 3]);
  line(drawing, 0, y, figure.scale.width, y);
  context.setLineDash([]);
}

function curvePath(
  curve: Pick<Curve, 'points'>,
  width: number,
  top: number,
  bottom: number,
): { area: Path2D; edge: Path2D } {
  const area = new Path2D();
  const edge = new Path2D();
  const { points } = curve;
  const high = (at: number): number => bottom - (bottom - top) * points[at + 1];
  area.moveTo(points[0], bottom);
  edge.moveTo(points[0], high(0));
  for (let at = 0; at < points.length; at += 2) {
    const next = at + 2 < points.length ? points[at + 2] : width;
    area.lineTo(points[at], high(at));
    area.lineTo(next, high(at));
    edge.lineTo(points[at], high(at));
    edge.lineTo(next, high(at));
  }
  area.lineTo(width, bottom);
  area.closePath();
  return { area, edge };
}

/** Where the run failed: a line, sunk ground after it, and the row hatched the other way, never lost at any zoom. */
function paintFault(drawing: DrawContext, figure: Figure): void {
  const { run, scale } = figure;
  if (run.fault < 0 || !run.has(run.fault)) return;
  const { context, palette } = drawing;
  const x = xOf(scale, faultTime(run));
  if (x < scale.width) {
    context.globalAlpha = 0.5;
    context.fillStyle = palette.sunk;
    context.fillRect(Math.max(0, x), SIZES.axis, scale.width - Math.max(0, x), figure.height - SIZES.axis);
    context.globalAlpha = 1;
  }
  context.strokeStyle = palette.error;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, SIZES.axis);
  context.lineTo(x, figure.height);
  context.stroke();
  paintFaultWord(drawing, figure, x);
  paintFailed(drawing, figure);
}

/** Beside the line, in the row of the critical path, which ends there. */
function paintFaultWord(drawing: DrawContext, figure: Figure, x: number): void {
  const strip = figure.strips.find(one => one.kind === 'path');
  if (strip === undefined || x < 0 || x > figure.scale.width) return;
  const { context, palette } = drawing;
  useFont(drawing, FONTS.axis, 600);
  const left = x + 6 + widthOf(context, FAILED) > figure.scale.width;
  context.textAlign = left ? 'right' : 'left';
  context.textBaseline = 'middle';
  if (left) {
    context.fillStyle = palette.bg;
    const width = widthOf(context, FAILED) + 12;
    context.fillRect(x - width, strip.top + 1, width - 1, strip.height - 2);
  }
  context.fillStyle = palette.error;
  context.fillText(FAILED, left ? x - 6 : x + 6, strip.top + strip.height / 2);
}

const FAILED = '✕ failed';

/** The row at which the run failed, at least 3 px wide; the last one before the fault is only framed. */
export function paintFailed(drawing: DrawContext, figure: Figure): void {
  const { context, palette } = drawing;
  const place = placeOf(figure, figure.run.fault);
  if (place === null) return;
  const wide = Math.max(3, place.width);
  if (!figure.run.faultAfter) {
    context.fillStyle = palette.errorGround;
    context.fillRect(place.x, place.y, wide, place.height);
    context.fillStyle = hatch(context, palette.error, 135);
    context.fillRect(place.x, place.y, wide, place.height);
  }
  context.strokeStyle = palette.error;
  context.lineWidth = 1.5;
  context.strokeRect(place.x, place.y, wide, place.height);
}

/** The end of the row at which the run failed. */
export function faultTime(run: Run): number {
  const place = run.fault - run.rows.first;
  return run.rows.start[place] + run.rows.duration[place];
}
