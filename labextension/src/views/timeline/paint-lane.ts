/** Bars, blocks, hatches and columns of a lane. */
import { hatch } from '../../canvas/hatch';
import { type Rgb, rgbOf } from '../../canvas/rgb';
import { createStrip } from '../../canvas/strip';
import { fit, widthOf } from '../../canvas/text';
import type { Hue, Run } from '../../types';
import type { Bar, Wait } from './bars';
import type { Columns } from './columns';
import { box, DIM, FONTS, isDim, type DrawContext, useFont, whole } from './draw_context';
import { awaitedWords, waitLabel } from './words';

/** Where the bars of a lane lie, and how large their text is. */
export interface Row {
  readonly top: number;
  readonly height: number;
  readonly font: number;
}

/** A block shows how many rows it is from this width on. */
const COUNT_FROM = 24;
const LABEL_MARGIN = 2;
/** Lower bars have no text. */
const LEAST_FOR_TEXT = 12;
/** What the two forms of a wait's text need beside them. */
const ROOM_FOR_WORDS = 34;
const ROOM_FOR_NAME = 22;
const HATCH = 7;

export function paintBars(drawing: DrawContext, run: Run, bars: readonly Bar[], row: Row): void {
  for (const bar of bars) paintBar(drawing, bar, row);
  useFont(drawing, row.font);
  const { context } = drawing;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  if (row.height < LEAST_FOR_TEXT) return;
  for (const bar of bars) paintLabel(drawing, run, bar, row);
}

export function paintBar(drawing: DrawContext, bar: Bar, row: Row): void {
  const { context } = drawing;
  context.fillStyle = drawing.colouring.of(bar.step);
  context.globalAlpha = (bar.count > 1 ? 0.45 + 0.5 * bar.busy : 1) * (isDim(drawing, bar) ? DIM : 1);
  const [x, width] = extent(drawing, bar);
  box(drawing, x, row.top, width, row.height);
  context.globalAlpha = 1;
}

/** A bar on whole device pixels, with a gap to its right where it can spare it. */
export function extent(drawing: DrawContext, bar: { x: number; width: number }): readonly [number, number] {
  const x = whole(drawing, bar.x);
  const end = whole(drawing, bar.x + bar.width - (bar.width >= 3.2 ? 0.8 : 0));
  return [x, Math.max(1, end - x)];
}

function paintLabel(drawing: DrawContext, run: Run, bar: Bar, row: Row): void {
  if (bar.count > 1 && bar.width < COUNT_FROM) return;
  const { context } = drawing;
  const left = Math.max(bar.x, 0);
  const right = Math.min(bar.x + bar.width, context.canvas.width / drawing.ratio);
  const room = right - left - 1 - 2 * LABEL_MARGIN;
  if (room < 5) return;
  const text = fit(context, bar.count > 1 ? String(bar.count) : run.label(bar.step), room);
  if (text === '') return;
  context.fillStyle = isDim(drawing, bar) ? drawing.palette.ink3 : drawing.colouring.on(drawing.colouring.of(bar.step));
  context.fillText(text, (left + right - 1) / 2, row.top + row.height / 2 + 0.5);
}

/** The marks of the critical path below the bars. */
export function paintCritical(drawing: DrawContext, bars: readonly Bar[], y: number): void {
  drawing.context.fillStyle = drawing.palette.ink;
  for (const bar of bars) {
    if (!bar.critical) continue;
    const [x, width] = extent(drawing, bar);
    drawing.context.fillRect(x, y, width, 2);
  }
}

export function paintWaits(drawing: DrawContext, run: Run, waits: readonly Wait[], row: Row): void {
  const { context } = drawing;
  const height = Math.min(HATCH, row.height - 4);
  const y = whole(drawing, row.top + (row.height - height) / 2);
  const paths = new Map<Hue, Path2D>();
  for (const wait of waits) {
    const hue = run.stallHue(wait.step, wait.stall);
    let path = paths.get(hue);
    if (path === undefined) paths.set(hue, (path = new Path2D()));
    path.rect(wait.x, y, Math.max(1, wait.width - 1), height);
  }
  context.globalAlpha = drawing.dimmed ? DIM : 1;
  for (const [hue, path] of paths) {
    context.fillStyle = hatch(context, drawing.palette.hue[hue], 45);
    context.fill(path);
  }
  context.globalAlpha = 1;
  if (row.height < LEAST_FOR_TEXT) return;
  for (const wait of waits) paintWaitText(drawing, run, wait, row);
}

function paintWaitText(drawing: DrawContext, run: Run, wait: Wait, row: Row): void {
  if (wait.width < ROOM_FOR_NAME + 5) return;
  const { context, palette } = drawing;
  useFont(drawing, FONTS.wait);
  let text = waitLabel(run, wait.step, wait.stall);
  if (widthOf(context, text) + ROOM_FOR_WORDS > wait.width) {
    text = awaitedWords(run, wait.step, wait.stall);
    if (widthOf(context, text) + ROOM_FOR_NAME > wait.width) return;
  }
  const middle = wait.x + wait.width / 2;
  const width = widthOf(context, text) + 12;
  context.fillStyle = palette.bg;
  context.fillRect(middle - width / 2, row.top, width, row.height);
  context.fillStyle = drawing.dimmed ? palette.ink3 : palette.ink2;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(text, middle, row.top + row.height / 2 + 0.5);
}

/** The foot of columns: share and main cause of waiting. */
const FOOT = 4;
/** A pixel in which anything runs is never blank. */
const FAINTEST = 0.12;

/** Columns of one pixel: opacity is the busy share, the foot the share and the cause of waiting. */
export function paintColumns(
  drawing: DrawContext,
  columns: Columns,
  row: { top: number; height: number; lanes: readonly number[] },
  colour: (column: number) => string,
  cause: (column: number, stall: number) => string,
): void {
  const { sums } = columns;
  const strip = createStrip(sums.count, 1 + FOOT);
  const bright = drawing.marks?.columns(row.lanes, sums);
  const dimAt = (at: number): number => (drawing.dimmed && bright?.[at] !== 1 ? DIM : 1);
  const rgbs = new Map<string, Rgb>();
  const numbers = (name: string): Rgb => {
    let rgb = rgbs.get(name);
    if (rgb === undefined) rgbs.set(name, (rgb = rgbOf(name)));
    return rgb;
  };
  for (let at = 0; at < sums.count; at++) {
    if (sums.busy[at] > 0 || sums.rows[at] > 0) {
      const share = Math.max(FAINTEST, Math.min(1, sums.busy[at] / sums.width));
      strip.set(at, 0, numbers(colour(at)), share * dimAt(at));
    }
    const waiting = Math.min(1, sums.waiting[at] / sums.width);
    const high = waiting > 0 ? Math.max(1, Math.round(waiting * FOOT)) : 0;
    if (high === 0) continue;
    const of = numbers(cause(at, sums.cause[at]));
    for (let y = 0; y < high; y++) strip.set(at, FOOT - y, of, dimAt(at));
  }
  const { context } = drawing;
  const width = context.canvas.width / drawing.ratio;
  strip.draw(context, 0, 1, [0, row.top, width, row.height - FOOT - 2]);
  strip.draw(context, 1, FOOT, [0, row.top + row.height - FOOT, width, FOOT]);
  if (!drawing.dimmed) paintCriticalColumns(drawing, columns, row.top + row.height - FOOT - 2);
}

function paintCriticalColumns(drawing: DrawContext, { sums }: Columns, y: number): void {
  drawing.context.fillStyle = drawing.palette.ink;
  const wide = drawing.context.canvas.width / drawing.ratio / sums.count;
  for (let at = 0; at < sums.count; at++) {
    if (sums.critical[at] !== 1) continue;
    let end = at + 1;
    while (end < sums.count && sums.critical[end] === 1) end++;
    drawing.context.fillRect(at * wide, y, (end - at) * wide, 1);
    at = end;
  }
}
