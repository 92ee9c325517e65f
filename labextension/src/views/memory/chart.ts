/** Lifetimes: the addresses of one class of partitions over time, on a picture that is kept while the cursor moves. */

import { hatch } from '../../canvas/hatch';
import { ticks } from '../../canvas/scale';
import { createSurface } from '../../canvas/surface';
import type { Surface } from '../../canvas/surface';
import { el, replace, setAttribute, setText } from '../../dom';
import * as format from '../../format';
import type { Span } from '../../types';
import type { Brush } from './brush';
import { paintAxisText, paintDead, paintLine, paintLive, paintOutline, paintPale } from './brush';
import type { PartitionClass } from './classes';
import { classRange } from './classes';
import type { Bar, Chart } from './lifetimes';
import { around, byteY, layoutLifetimes } from './lifetimes';
import type { Area } from './map';
import { boxAt, byteTicks } from './map';
import type { Section } from './sbuf';
import { missingWords, shownBytes } from './sbuf';
import type { Scene } from './scene';
import { axisFont, measureOf } from './scene';

const SIZES = {
  compact: { plot: 86, left: 38, right: 8, top: 4, bottom: 8 },
  full: { plot: 210, left: 56, right: 12, top: 8, bottom: 26 },
} as const;
/** A kept picture in compact form is so many times as wide as what is seen of it. */
const REACH = 3;
const CURSOR_HEIGHT = 17;
/** Half the width of the cursor's time with a number beside it. */
const BADGE = 52;
/** Lower bars are not hatched, and their dead time is not dashed: it would be noise. */
const HATCHED = 4;
const DASHED = 5;
const QUIET = 0.65;

/** A picture of the lifetimes, wider than what is seen of it. */
interface Layer {
  readonly key: string;
  readonly window: Span;
  readonly surface: Surface;
  readonly chart: Chart;
}

/** What is seen: a window of time on an area. */
interface Frame {
  readonly area: Area;
  readonly window: Span;
  readonly shown: number;
  readonly capacity: number;
  readonly part: PartitionClass | undefined;
}

export function createChart(choose: (letter: string) => void): Section {
  const surface = createSurface();
  const words = el('span', { class: 'nki-memory-words' });
  const chooser = el('span', { class: 'nki-memory-classes', role: 'group', 'aria-label': 'Class of partitions' });
  const plot = el('div', { class: 'nki-memory-plot' }, surface.element);
  const caption = el('div', { class: 'nki-memory-caption' }, el('b', {}, 'Lifetimes'), words, chooser);
  const element = el('div', { class: 'nki-memory-lifetimes' }, caption, plot);
  let layer: Layer | undefined;
  let frame: Frame | undefined;

  return {
    element,
    draw(scene) {
      element.hidden = missingWords(scene) !== '';
      if (element.hidden) return;
      frame = frameOf(scene, plot.clientWidth);
      setText(words, wordsOf(scene, frame));
      offerClasses(chooser, scene, frame.part, choose);
      if (frame.area.width < 40) return;
      const sizes = scene.compact ? SIZES.compact : SIZES.full;
      surface.resize(plot.clientWidth, sizes.top + sizes.plot + sizes.bottom);
      surface.clear();
      layer = layerFor(layer, scene, frame, surface.ratio);
      const brush = { context: surface.context, scene };
      paintGround(brush, frame);
      blit(surface, layer, frame);
      paintMoment(brush, layer, frame);
    },
    describe(scene) {
      setAttribute(surface.element, 'role', 'img');
      setAttribute(
        surface.element,
        'aria-label',
        `Lifetimes of ${format.plural(scene.sbuf.tiles.length, 'tile')} in SBUF`,
      );
    },
    tileAt(event) {
      if (layer === undefined || frame === undefined) return undefined;
      const bounds = surface.element.getBoundingClientRect();
      const { area } = frame;
      const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
      if (x < area.x || x > area.x + area.width) return undefined;
      const shift = offsetOf(layer, frame);
      const found = boxAt(layer.chart.bars, x - shift, y, 3) ?? boxAt(layer.chart.blocks, x - shift, y, 3);
      return found?.tile;
    },
  };
}

function frameOf(scene: Scene, width: number): Frame {
  const sizes = scene.compact ? SIZES.compact : SIZES.full;
  const area = { x: sizes.left, y: sizes.top, width: width - sizes.left - sizes.right, height: sizes.plot };
  const { state, run } = scene;
  const half = around(state.window);
  const window = scene.compact ? { from: state.time - half, to: state.time + half } : state.window;
  const part = scene.classes.find(one => one.letter === scene.letter) ?? scene.classes[0];
  return { area, window, shown: shownBytes(scene), capacity: run.capacity.sbuf, part };
}

function wordsOf(scene: Scene, { window, part }: Frame): string {
  const half = (window.to - window.from) / 2;
  const what = scene.classes.length > 1 ? 'by time' : 'SBUF address by time';
  const time = scene.compact ? `${what}, ±${shortTime(half)}` : 'address by time';
  if (scene.classes.length < 2 || part === undefined) return time;
  return scene.compact ? time : `${time}, class ${part.letter} (${classRange(part)})`;
}

/** Without decimals that are zero: "6 µs". */
function shortTime(picoseconds: number): string {
  return format
    .time(picoseconds)
    .replace(/\.00(?= )/, '')
    .replace(/(\.\d)0(?= )/, '$1');
}

function offerClasses(
  chooser: HTMLElement,
  scene: Scene,
  part: PartitionClass | undefined,
  choose: (letter: string) => void,
): void {
  const key = scene.classes.length < 2 ? '' : `${scene.classes.map(one => one.letter).join('')} ${part?.letter ?? ''}`;
  if (chooser.dataset.key === key) return;
  chooser.dataset.key = key;
  if (key === '') {
    replace(chooser);
    return;
  }
  const buttons = scene.classes.map(one =>
    el(
      'button',
      {
        type: 'button',
        'aria-pressed': String(one === part),
        title: classRange(one),
        on: { click: () => choose(one.letter) },
      },
      one.letter,
    ),
  );
  replace(chooser, 'class', ...buttons);
}

/** The kept picture if it still shows what is asked for, else a new one. */
function layerFor(kept: Layer | undefined, scene: Scene, frame: Frame, ratio: number): Layer {
  const { area, window, shown, part } = frame;
  const length = window.to - window.from;
  const key = [
    scene.palette.theme,
    scene.palette.ink,
    scene.colouring,
    scene.run.rows.first,
    scene.run.rows.count,
    area.width,
    area.height,
    area.y,
    ratio,
    Math.round(length),
    shown,
    part?.letter,
    scene.compact ? '' : window.from,
  ].join(' ');
  const covered = kept !== undefined && kept.window.from <= window.from && kept.window.to >= window.to;
  if (kept?.key === key && covered) return kept;
  const wide = scene.compact ? reachOf(window, scene.run.makespan) : window;
  return paintLayer(kept?.surface ?? createSurface(), key, scene, frame, wide);
}

/** The window of a kept picture: all times that the cursor can have, if that is not much more, else some around it. */
export function reachOf(window: Span, makespan: number): Span {
  const length = window.to - window.from;
  if (makespan + length <= REACH * length) return { from: -length / 2, to: makespan + length / 2 };
  const more = (length * (REACH - 1)) / 2;
  return { from: window.from - more, to: window.to + more };
}

function paintLayer(surface: Surface, key: string, scene: Scene, frame: Frame, window: Span): Layer {
  const { area, shown } = frame;
  const width = (area.width * (window.to - window.from)) / (frame.window.to - frame.window.from);
  surface.resize(Math.round(width), area.y + area.height + 1);
  surface.clear();
  const chart = layoutLifetimes({
    tiles: scene.sbuf.between(window.from, window.to),
    window,
    partitions: frame.part,
    shown,
    area: { x: 0, y: area.y, width, height: area.height },
    measure: measureOf(surface.context, scene.palette),
    deadWords: time => (scene.compact ? '' : `dead ${shortTime(time)}`),
    makespan: scene.run.makespan,
    clobbered: scene.clobbered,
    start: buffer => scene.sbuf.of(buffer)?.start ?? Infinity,
  });
  const quiet = { ...scene, strong: new Set<number>() };
  const brush = { context: surface.context, scene: quiet };
  for (const block of chart.blocks) {
    const { ground } = scene.painter(block.tile, block.tile.end);
    surface.context.globalAlpha = 0.25 + 0.35 * block.busy;
    surface.context.fillStyle = ground;
    surface.context.fillRect(block.x, block.y, block.width, block.height);
    surface.context.globalAlpha = 1;
    if (block.label !== '') paintText(brush, block.label, block.x + block.width / 2, block, scene.palette.ink);
  }
  for (const bar of chart.bars) paintBar(brush, bar, scene.palette.ink, frame.capacity);
  return { key, window, surface, chart };
}

/** One life: hatched while it is written, solid while it is live, dashed while it is dead. */
function paintBar(brush: Brush, bar: Bar, ink: string, capacity: number): void {
  const { context, scene } = brush;
  const { tile, x, y, height, written, end } = bar;
  const right = x + bar.width;
  if (right - end >= 1 && height >= DASHED && !scene.compact) {
    context.globalAlpha = QUIET;
    paintDead(brush, tile, { x: end, y, width: right - end, height });
    context.globalAlpha = 1;
  }
  if (end > written) paintLive(brush, tile, { x: written, y, width: Math.max(1, end - written), height });
  if (written > x) {
    const area = { x, y, width: written - x, height };
    if (height < HATCHED) paintLive(brush, tile, area);
    else {
      paintPale(brush, tile, area);
      context.globalAlpha = QUIET;
      context.fillStyle = hatch(context, scene.painter(tile, tile.end).ground, 45);
      context.fillRect(area.x, area.y, area.width, area.height);
      context.globalAlpha = 1;
    }
  }
  if (tile.high > capacity) {
    context.fillStyle = hatch(context, scene.palette.error, 135);
    context.fillRect(x, y, end - x, height);
  }
  const from = bar.labelled === 'live' ? written : x;
  if (bar.label !== '') paintText(brush, bar.label, (from + end) / 2, bar, ink, bar.labelled === 'all' && written > x);
  if (bar.deadLabel !== '') paintText(brush, bar.deadLabel, (end + right) / 2, bar, scene.palette.ink3);
}

function paintText({ context, scene }: Brush, text: string, x: number, area: Area, ink: string, plate = false): void {
  context.font = axisFont(scene.palette);
  const y = area.y + area.height / 2;
  if (plate) {
    const width = context.measureText(text).width + 6;
    context.fillStyle = scene.palette.bg;
    context.beginPath();
    context.roundRect(x - width / 2, Math.max(area.y, y - 7), width, Math.min(area.height, 14), 3);
    context.fill();
  }
  context.fillStyle = plate ? scene.palette.ink : ink;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(text, x, y + 0.5);
}

function paintGround(brush: Brush, { area, window, shown, capacity }: Frame): void {
  const { context, scene } = brush;
  const { palette } = scene;
  context.fillStyle = palette.sunk;
  context.fillRect(area.x, area.y, area.width, area.height);
  const byBytes = byteTicks(shown, area.height * (scene.compact ? 1.3 : 1.1));
  for (const value of byBytes.values) {
    const y = byteY(value, shown, area);
    if (y > area.y + area.height - 2 && value < shown) continue;
    paintAxisText(
      brush,
      scene.hex ? format.address(value) : byBytes.label(value),
      area.x - 8,
      Math.max(y, area.y + 4),
      'right',
    );
  }
  if (!scene.compact) {
    const byTime = ticks(window.from, window.to, area.width);
    const under = area.y + area.height + 14;
    paintAxisText(brush, byTime.unit, area.x - 22, under, 'right');
    for (const value of byTime.values) {
      const x = timeX(value, { area, window });
      paintLine(context, palette.line, [x, area.y], [x, area.y + area.height]);
      // The cursor's time stands in the same line.
      if (Math.abs(x - timeX(scene.state.time, { area, window })) > BADGE)
        paintAxisText(brush, byTime.label(value), x, under, value === window.from ? 'left' : 'center');
    }
  }
  if (shown > capacity) {
    const y = byteY(capacity, shown, area);
    context.fillStyle = hatch(context, palette.error, 135);
    context.globalAlpha = 0.35;
    context.fillRect(area.x, y, area.width, area.y + area.height - y);
    context.globalAlpha = 1;
  }
}

function timeX(time: number, { area, window }: Pick<Frame, 'area' | 'window'>): number {
  return area.x + ((time - window.from) / Math.max(1, window.to - window.from)) * area.width;
}

/** Pixels from a place in the layer to the same place in the frame. */
function offsetOf(layer: Layer, frame: Frame): number {
  const scale = frame.area.width / Math.max(1, frame.window.to - frame.window.from);
  return frame.area.x - (frame.window.from - layer.window.from) * scale;
}

function blit({ context, ratio }: Surface, layer: Layer, frame: Frame): void {
  const { area } = frame;
  context.save();
  context.beginPath();
  context.rect(area.x, 0, area.width, area.y + area.height + 1);
  context.clip();
  const { element, width, height } = layer.surface;
  context.drawImage(element, Math.round(offsetOf(layer, frame) * ratio) / ratio, 0, width, height);
  context.restore();
}

/** What changes with the cursor and the selection: chosen tiles in full colour, early reuse, capacity, cursor. */
function paintMoment(brush: Brush, layer: Layer, frame: Frame): void {
  const { context, scene } = brush;
  const { area, capacity, shown } = frame;
  const { palette, state } = scene;
  context.save();
  context.beginPath();
  context.rect(area.x - 3, area.y - 3, area.width + 6, area.height + 6);
  context.clip();
  context.translate(offsetOf(layer, frame), 0);
  for (const bar of layer.chart.bars) {
    const { id } = bar.tile.buffer;
    const chosen = scene.outlined.has(id);
    if (chosen) paintBar(brush, bar, scene.painter(bar.tile, bar.tile.end).label, capacity);
    if (chosen || scene.twins.has(id))
      paintOutline(brush, bar.tile, scene.compact ? { ...bar, width: Math.max(2, bar.end - bar.x) } : bar);
  }
  for (const early of layer.chart.early) paintEarly(brush, early.x, early.y, early.by);
  context.restore();
  if (shown > capacity) {
    const y = byteY(capacity, shown, area);
    paintLine(context, palette.error, [area.x, y], [area.x + area.width, y], 1.5);
  }
  const x = timeX(state.time, frame);
  if (x < area.x || x > area.x + area.width) return;
  const below = scene.compact ? 2 : 6;
  paintLine(context, palette.ink, [x, area.y - 3], [x, area.y + area.height + below], 1.5);
  if (!scene.compact) paintBadge(brush, format.time(state.time), x, area.y + area.height + below, area);
}

/** A mark where bytes were given to another tile before the last read. */
function paintEarly(brush: Brush, x: number, y: number, by: number): void {
  const { context, scene } = brush;
  context.fillStyle = scene.palette.error;
  context.beginPath();
  context.moveTo(x, y - 5);
  context.lineTo(x + 5, y);
  context.lineTo(x, y + 5);
  context.lineTo(x - 5, y);
  context.fill();
  if (scene.compact) return;
  const words = `reused ${format.time(by)} early`;
  context.font = `600 10.5px ${scene.palette.uiFont}`;
  const width = context.measureText(words).width;
  context.fillStyle = scene.palette.bg;
  context.fillRect(x + 7, y - 7, width + 6, 14);
  context.fillStyle = scene.palette.error;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillText(words, x + 10, y + 0.5);
}

/** The cursor's time on the axis. */
function paintBadge({ context, scene }: Brush, text: string, x: number, y: number, area: Area): void {
  context.font = `600 ${axisFont(scene.palette)}`;
  const width = context.measureText(text).width + 12;
  const left = Math.min(Math.max(x - width / 2, area.x), area.x + area.width - width);
  context.fillStyle = scene.palette.bg;
  context.fillRect(left - 6, y + 1, width + 12, CURSOR_HEIGHT);
  context.fillStyle = scene.palette.ink;
  context.beginPath();
  context.roundRect(left, y, width, CURSOR_HEIGHT, 4);
  context.fill();
  context.fillStyle = scene.palette.bg;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(text, left + width / 2, y + CURSOR_HEIGHT / 2 + 0.5);
}
