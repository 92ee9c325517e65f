/** The rows of loops: iterations as cells, warm-up hatched, outliers marked, the representative one framed. */
import { hatch } from '../../canvas/hatch';
import { fit, widthOf } from '../../canvas/text';
import * as format from '../../format';
import type { Loop, LoopTrack } from '../../types';
import { box, FONTS, line, type DrawContext, useFont, whole } from './draw_context';
import type { Figure } from './figure';
import type { LoopCell } from './loop_rows';
import type { LoopStrip } from './strips';

/** What lies above and below the cells of a row. */
const MARGIN = 3;
/** The line of what runs ahead of a cell, at the lower edge of the row. */
const LEAD = 1.5;
const LABEL_FROM = 14;

export function paintLoops(drawing: DrawContext, figure: Figure, strip: LoopStrip): void {
  const track = figure.run.loopTrack;
  const cells = figure.loops.get(strip);
  if (track === null || cells === undefined) return;
  const top = strip.top + MARGIN;
  const height = strip.height - 2 * MARGIN - 1;
  for (const cell of cells) {
    const loop = track.loops[track.loopOf(cell.first)];
    if (cell.whole !== null) paintExecution(drawing, cell, { top, height });
    else paintCell(drawing, cell, { top, height });
    if (loop !== undefined && cell.whole === null && holds(cell, loop)) frame(drawing, cell, { top, height });
  }
  useFont(drawing, FONTS.track);
  drawing.context.textAlign = 'center';
  drawing.context.textBaseline = 'middle';
  const middle = top + height / 2;
  let from = -Infinity;
  cells.forEach((cell, at) => {
    const to = cells.at(at + 1)?.x ?? Infinity;
    from = paintLabel(drawing, figure, track, { cell, middle, from, to });
  });
}

interface Band {
  readonly top: number;
  readonly height: number;
}

function holds(cell: LoopCell, loop: Loop): boolean {
  return cell.count === 1 && cell.first === loop.representative;
}

/** On whole device pixels, with a gap to the right of single iterations that can spare it. */
function extent(
  drawing: DrawContext,
  { x, width, count = 1 }: { x: number; width: number; count?: number },
): readonly [number, number] {
  const left = whole(drawing, Math.max(x, -4));
  const right = whole(drawing, Math.min(x + width, drawing.context.canvas.width / drawing.ratio + 4));
  return [left, Math.max(1, right - left - (width >= 3.2 && count === 1 ? 1 : 0))];
}

function paintCell(drawing: DrawContext, cell: LoopCell, { top, height }: Band): void {
  const { context, palette } = drawing;
  const [x, width] = extent(drawing, cell);
  if (cell.count > 1 || cell.state === 'steady') {
    context.fillStyle = palette.ink3;
    context.globalAlpha = cell.count > 1 ? 0.16 : 0.26;
    box(drawing, x, top, width, height);
    context.globalAlpha = 1;
    if (cell.outliers > 0) outlierMark(drawing, x, width, { top, height });
  } else if (cell.state === 'outlier') {
    context.fillStyle = palette.warnGround;
    box(drawing, x, top, width, height);
    outlierMark(drawing, x, width, { top, height });
  } else {
    context.fillStyle = palette.sunk;
    box(drawing, x, top, width, height);
    if (cell.state === 'warm-up') {
      context.globalAlpha = 0.7;
      context.fillStyle = hatch(context, palette.faint, 45);
      context.fillRect(x, top, width, height);
      context.globalAlpha = 1;
    }
    edge(drawing, x, width, { top, height });
  }
  if (cell.lead < cell.x - 1 && cell.width >= LABEL_FROM) {
    context.strokeStyle = palette.faint;
    context.lineWidth = LEAD;
    line(drawing, Math.max(0, cell.lead), top + height + LEAD, cell.x, top + height + LEAD);
  }
}

/** Outliers are told apart by a mark as well as by colour. */
function outlierMark(drawing: DrawContext, x: number, width: number, { top, height }: Band): void {
  drawing.context.fillStyle = drawing.palette.warn;
  drawing.context.fillRect(x, top + height - 2, width, 2);
}

function edge(drawing: DrawContext, x: number, width: number, { top, height }: Band): void {
  if (width < 3) return;
  drawing.context.strokeStyle = drawing.palette.line2;
  drawing.context.lineWidth = 1;
  drawing.context.strokeRect(x + 0.5, top + 0.5, width - 1, height - 1);
}

function frame(drawing: DrawContext, cell: { x: number; width: number }, { top, height }: Band): void {
  if (cell.width < 4) return;
  const [x, width] = extent(drawing, cell);
  drawing.context.strokeStyle = drawing.palette.ink2;
  drawing.context.lineWidth = 1.4;
  drawing.context.strokeRect(x + 0.7, top + 0.7, width - 1.4, height - 1.4);
}

/** A whole execution: its warm-up hatched, its outliers as ticks, its representative iteration framed. */
function paintExecution(drawing: DrawContext, cell: LoopCell, band: Band): void {
  const { context, palette } = drawing;
  const { top, height } = band;
  const [x, width] = extent(drawing, cell);
  context.fillStyle = palette.ink3;
  context.globalAlpha = 0.16;
  box(drawing, x, top, width, height);
  context.globalAlpha = 1;
  if (cell.whole === null) return;
  const { warmUntil, representative, outliers } = cell.whole;
  if (warmUntil - cell.x >= 1) {
    context.fillStyle = hatch(context, palette.faint, 45);
    context.fillRect(x, top, Math.min(width, Math.max(0, warmUntil - x)), height);
  }
  context.fillStyle = palette.warn;
  for (const at of outliers) context.fillRect(whole(drawing, at), top + height - 2, 1.5, 2);
  if (representative === null || representative.width < 2) return;
  const [from, wide] = extent(drawing, representative);
  context.fillStyle = palette.bg;
  context.fillRect(from, top, wide, height);
  context.fillStyle = palette.ink3;
  context.globalAlpha = 0.3;
  context.fillRect(from, top, wide, height);
  context.globalAlpha = 1;
  frame(drawing, representative, band);
}

/**
 * Iterations of executions that overlap do too: a label begins after the one before it, and ends where the next cell
 * begins, which lies over its own. Returns where it ends.
 */
function paintLabel(
  drawing: DrawContext,
  figure: Figure,
  track: LoopTrack,
  { cell, middle, from, to }: { cell: LoopCell; middle: number; from: number; to: number },
): number {
  const { context, palette } = drawing;
  const left = Math.max(cell.x, 0);
  const right = Math.min(cell.x + cell.width, figure.scale.width, Math.max(left, to));
  const room = right - left - 6;
  if (room < LABEL_FROM - 6) return from;
  const words = cell.whole === null ? cellWords(track, cell) : executionWords(track, cell);
  const text =
    words.find(one => widthOf(context, one) <= room) ??
    (cell.count === 1 ? fit(context, words.at(-1) ?? '', room) : '');
  const half = widthOf(context, text) / 2 + 3;
  const centre = (left + right - 1) / 2;
  if (text === '' || centre - half < from) return from;
  if (cell.whole !== null || cell.state === 'warm-up') {
    const width = widthOf(context, text) + 8;
    context.fillStyle = palette.bg;
    context.globalAlpha = 0.82;
    context.fillRect((left + right - width) / 2, middle - 6, width, 12);
    context.globalAlpha = 1;
  }
  context.fillStyle = palette.ink2;
  context.fillText(text, centre, middle + 0.5);
  return centre + half;
}

/** "i = 3", "3"; of several how many. */
function cellWords(track: LoopTrack, cell: LoopCell): readonly string[] {
  if (cell.count > 1) return [`${cell.count}`];
  const { loop, value } = track.facts(cell.first);
  return [`${loop.variable} = ${value}`, String(value)];
}

/** "64 × i · 1.44 µs ± 0.41 µs · 4 warm-up · 2 outliers", shorter and shorter. */
export function executionWords(track: LoopTrack, cell: LoopCell): readonly string[] {
  const loop = track.loops[track.loopOf(cell.first)];
  const count = `${format.count(cell.count)} × ${loop.variable}`;
  const mean = `${format.time(loop.mean)} ± ${format.time(loop.spread)}`;
  const outliers = cell.outliers > 0 ? ` · ${format.plural(cell.outliers, 'outlier')}` : '';
  return [
    `${count} · mean ${mean}${outliers}`,
    `${count} · ${mean}`,
    `${count} · ${format.time(loop.interval)}`,
    count,
  ];
}
