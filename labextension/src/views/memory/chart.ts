/** Lifetimes: the addresses of one class of partitions over time, on a picture that is kept while the cursor moves. */

import { hatch } from '../../canvas/hatch';
import { ticks } from '../../canvas/scale';
import { createSurface } from '../../canvas/surface';
import type { Surface } from '../../canvas/surface';
import { el, replace, setAttribute, setText } from '../../dom';
import * as format from '../../format';
import type { Span } from '../../types';
import { paintLast, widthOf } from '../../drawing';
import type { Brush } from './brush';
import { paintAxisText, paintLine, paintOutline } from './brush';
import type { PartitionClass } from './classes';
import { classRange, shortRange } from './classes';
import type { Layer } from './layer';
import { createLayers, paintBar } from './layer';
import { byteY } from './lifetimes';
import type { Area } from './map';
import { boxAt, byteTicks } from './map';
import { partOf } from './ranges';
import { missingWords } from './sbuf';
import type { Scene } from './scene';
import { axisFont } from './scene';
import type { Section, Spot, Stop } from './section';
import { inside, pointIn } from './section';

const SIZES = {
  compact: { plot: 94, left: 38, right: 8, top: 4, bottom: 20 },
  full: { plot: 300, left: 56, right: 12, top: 8, bottom: 28 },
} as const;
const CURSOR_HEIGHT = 17;
/** Half the width of the cursor's time with a number beside it. */
const BADGE = 52;
/** The focus moves over so many bars at most. */
const STOPS = 2000;

/** What is seen: a window of time, and bytes, on an area. */
export interface Frame {
  readonly area: Area;
  readonly window: Span;
  readonly bytes: Span;
  readonly capacity: number;
  readonly part: PartitionClass | undefined;
}

/** `choose` is called with the place of a class of partitions. */
export function createChart(choose: (part: number) => void): Section & { dispose(): void } {
  const surface = createSurface();
  const words = el('span', { class: 'nki-memory-words' });
  const chooser = el('span', { class: 'nki-memory-classes', role: 'group', 'aria-label': 'Partitions' });
  const plot = el('div', { class: 'nki-memory-plot' }, surface.element);
  const caption = el('div', { class: 'nki-memory-caption' }, el('b', {}, 'Lifetimes'), words, chooser);
  const element = el('div', { class: 'nki-memory-lifetimes' }, caption, plot);
  let layer: Layer | undefined;
  let frame: Frame | undefined;
  let latest: Scene | undefined;
  const paint = (): void => {
    if (latest === undefined || frame === undefined) return;
    const sizes = latest.compact ? SIZES.compact : SIZES.full;
    surface.resize(frame.area.width + sizes.left + sizes.right, sizes.top + sizes.plot + sizes.bottom);
    surface.clear();
    const brush = { context: surface.context, scene: latest };
    paintGround(brush, frame);
    if (layer !== undefined) {
      blit(surface, layer, frame);
      paintChosen(brush, layer, frame);
    }
    paintMoment(brush, frame);
  };
  const layers = createLayers(made => {
    layer = made;
    paint();
  });

  return {
    element,
    plot,
    axes: { x: 'time', y: 'bytes' },
    draw(scene) {
      latest = scene;
      element.hidden = missingWords(scene) !== '';
      frame = element.hidden ? undefined : frameOf(scene, widthOf(plot));
      if (frame === undefined) return;
      setText(words, wordsOf(scene, frame));
      offerClasses(chooser, scene, choose);
      layer = layers.layerFor(scene, frame, surface.ratio);
      paintLast(surface, paint);
    },
    describe(scene) {
      setAttribute(surface.element, 'role', 'img');
      setAttribute(
        surface.element,
        'aria-label',
        `Lifetimes of ${format.plural(scene.sbuf.tiles.length, 'tile')} in SBUF`,
      );
    },
    area: () => frame?.area,
    spotAt(event) {
      return frame === undefined ? undefined : spotIn(frame, layer, pointIn(surface.element, event));
    },
    stops: () => (layer === undefined || frame === undefined ? [] : stopsOf(layer, frame)),
    dispose: () => layers.dispose(),
  };
}

function frameOf(scene: Scene, width: number): Frame | undefined {
  const sizes = scene.compact ? SIZES.compact : SIZES.full;
  const area = { x: sizes.left, y: sizes.top, width: width - sizes.left - sizes.right, height: sizes.plot };
  if (area.width < 40) return undefined;
  const { state, run, classes } = scene;
  return {
    area,
    window: state.window,
    bytes: scene.shown.bytes,
    capacity: run.capacity.sbuf,
    part: classes[scene.part] ?? classes[0],
  };
}

function spotIn(frame: Frame, layer: Layer | undefined, [x, y]: readonly [number, number]): Spot | undefined {
  const { area, window, bytes } = frame;
  if (!inside(area, x, y, 2)) return undefined;
  const stands = layer !== undefined && stretch(layer, frame).still;
  const found = stands
    ? (boxAt(layer.chart.bars, x - area.x, y - area.y, 3) ?? boxAt(layer.chart.blocks, x - area.x, y - area.y, 3))
    : undefined;
  const [across, down] = [(x - area.x) / area.width, (y - area.y) / area.height];
  return {
    space: 'sbuf',
    partition: found?.tile.top ?? frame.part?.from ?? 0,
    byte: Math.floor(partOf(bytes, 0, Math.min(down, 1 - 1e-9)).to),
    time: Math.round(partOf(window, 0, across).to),
    tile: found?.tile,
    fold: undefined,
  };
}

function stopsOf(layer: Layer, frame: Frame): readonly Stop[] {
  if (!stretch(layer, frame).still) return [];
  const { x, y, width } = frame.area;
  return layer.chart.bars.slice(0, STOPS).map(bar => ({
    key: `t${bar.tile.buffer.id}`,
    area: { x: bar.x + x, y: bar.y + y, width: Math.min(Math.max(2, bar.end - bar.x), width), height: bar.height },
    tile: bar.tile,
    fold: undefined,
  }));
}

function wordsOf(scene: Scene, { part }: Frame): string {
  const what = scene.compact ? 'by time' : 'address by time';
  return scene.classes.length < 2 || part === undefined ? what : `${what}, ${classRange(part)}`;
}

function offerClasses(chooser: HTMLElement, scene: Scene, choose: (part: number) => void): void {
  const { classes } = scene;
  const place = classes[scene.part] === undefined ? 0 : scene.part;
  const key = classes.length < 2 ? '' : `${classes.map(shortRange).join(' ')} ${place}`;
  if (chooser.dataset.key === key) return;
  chooser.dataset.key = key;
  if (key === '') {
    replace(chooser);
    return;
  }
  const buttons = classes.map((one, number) =>
    el(
      'button',
      {
        type: 'button',
        'aria-pressed': String(number === place),
        title: `Lifetimes in ${classRange(one)}`,
        on: { click: () => choose(number) },
      },
      shortRange(one),
    ),
  );
  replace(chooser, ...buttons);
}

function paintGround(brush: Brush, { area, window, bytes, capacity }: Frame): void {
  const { context, scene } = brush;
  const { palette } = scene;
  context.fillStyle = palette.sunk;
  context.fillRect(area.x, area.y, area.width, area.height);
  const byBytes = byteTicks(bytes, area.height * (scene.compact ? 1.3 : 1.1));
  for (const value of byBytes.values) {
    const y = byteY(value, bytes, area);
    if (y > area.y + area.height - 2 && value < bytes.to) continue;
    const text = scene.hex ? format.address(value) : byBytes.label(value);
    paintAxisText(brush, text, area.x - 8, Math.max(y, area.y + 4), 'right');
  }
  const byTime = ticks(window.from, window.to, area.width);
  const under = area.y + area.height + (scene.compact ? 11 : 14);
  paintAxisText(brush, byTime.unit, area.x - 8, under, 'right');
  for (const value of byTime.values) {
    const x = timeX(value, { area, window });
    paintLine(context, palette.line, [x, area.y], [x, area.y + area.height]);
    // The cursor's time stands in the same line.
    const covered = !scene.compact && Math.abs(x - timeX(scene.time, { area, window })) <= BADGE;
    if (!covered && x < area.x + area.width - 10) {
      paintAxisText(brush, byTime.label(value), x, under, x < area.x + 8 ? 'left' : 'center');
    }
  }
  if (bytes.to > capacity) {
    const y = byteY(capacity, bytes, area);
    context.fillStyle = hatch(context, palette.error, 135);
    context.globalAlpha = 0.35;
    context.fillRect(area.x, y, area.width, area.y + area.height - y);
    context.globalAlpha = 1;
  }
}

function timeX(time: number, { area, window }: Pick<Frame, 'area' | 'window'>): number {
  return area.x + ((time - window.from) / Math.max(1, window.to - window.from)) * area.width;
}

/** Where a kept picture stands in a frame; it stands still where both show the same. */
function stretch(layer: Layer, frame: Frame): Area & { readonly still: boolean } {
  const { area, window, bytes } = frame;
  const x = timeX(layer.window.from, frame);
  const width = timeX(layer.window.to, frame) - x;
  const scale = area.height / (bytes.to - bytes.from);
  const y = area.y + (layer.bytes.from - bytes.from) * scale;
  const height = (layer.bytes.to - layer.bytes.from) * scale;
  const still =
    same(layer.window, window) && same(layer.bytes, bytes) && layer.surface.width === Math.round(area.width);
  return { x, y, width, height, still };
}

function same(one: Span, other: Span): boolean {
  return one.from === other.from && one.to === other.to;
}

function blit({ context }: Surface, layer: Layer, frame: Frame): void {
  const { area } = frame;
  const place = stretch(layer, frame);
  context.save();
  context.beginPath();
  context.rect(area.x, area.y - 1, area.width, area.height + 2);
  context.clip();
  const { element, width, height } = layer.surface;
  if (place.still) context.drawImage(element, area.x, area.y, width, height);
  else context.drawImage(element, place.x, place.y, place.width, place.height);
  context.restore();
}

/** Chosen tiles in full colour, and early reuse. */
function paintChosen(brush: Brush, layer: Layer, frame: Frame): void {
  const { context, scene } = brush;
  const { area, capacity } = frame;
  if (!stretch(layer, frame).still) return;
  context.save();
  context.beginPath();
  context.rect(area.x - 3, area.y - 3, area.width + 6, area.height + 6);
  context.clip();
  context.translate(area.x, area.y);
  for (const id of new Set([...scene.outlined, ...scene.twins])) {
    const bar = layer.barOf.get(id);
    if (bar === undefined) continue;
    const chosen = scene.outlined.has(id);
    if (chosen) paintBar(brush, bar, scene.painter(bar.tile, bar.tile.end).label, capacity);
    // Bytes that nobody took may be dead up to the end of the run: the outline ends with the life.
    paintOutline(brush, bar.tile, { ...bar, width: Math.max(2, bar.end - bar.x) });
  }
  for (const early of layer.chart.early) paintEarly(brush, early.x, early.y, early.by);
  context.restore();
}

/** What changes with the cursor: the end of the memory, the cursor, and the moment that the map shows. */
function paintMoment(brush: Brush, frame: Frame): void {
  const { context, scene } = brush;
  const { area, capacity, bytes } = frame;
  const { palette, state } = scene;
  if (bytes.to > capacity && bytes.from <= capacity) {
    const y = byteY(capacity, bytes, area);
    paintLine(context, palette.error, [area.x, y], [area.x + area.width, y], 1.5);
  }
  const below = scene.compact ? 2 : 6;
  for (const time of scene.atPeak ? [state.time, scene.time] : [state.time]) {
    const x = timeX(time, frame);
    if (x < area.x - 1 || x > area.x + area.width + 1) continue;
    if (scene.atPeak && time === scene.time) context.setLineDash([4, 3]);
    paintLine(context, palette.ink, [x, area.y - 3], [x, area.y + area.height + below], 1.5);
    context.setLineDash([]);
    if (!scene.compact && time === scene.time) {
      const words = scene.atPeak ? `fullest ${format.time(time)}` : format.time(time);
      paintBadge(brush, words, x, area.y + area.height + below, area);
    }
  }
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
