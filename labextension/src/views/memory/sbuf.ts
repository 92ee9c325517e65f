/** The map of SBUF at a time: capacity strip, tiles, free gaps. */

import { MEMORY_LABELS } from '../../_generated/schema';
import { createSurface } from '../../canvas/surface';
import { el, setText } from '../../dom';
import * as format from '../../format';
import type { Finding } from '../../types';
import { paintLast, widthOf } from '../../drawing';
import type { Brush } from './brush';
import {
  paintAxisText,
  paintBeyond,
  paintDead,
  paintFold,
  paintLabel,
  paintLive,
  paintOutline,
  paintWriting,
} from './brush';
import type { Folded } from './folds';
import { foldDead } from './folds';
import { showCallout } from './over';
import { paintCapacity, paintClasses, paintGaps, paintGround, paintStrip } from './ground';
import type { Frame } from './ground';
import { createLegend } from './legend';
import type { Box } from './map';
import { boxAt, gapsOf, layoutMap, xOf } from './map';
import type { Phase, Tile } from './occupancy';
import { createPressureRow } from './pressure_row';
import { partOf, shareOf } from './ranges';
import type { Scene } from './scene';
import { measureOf } from './scene';
import type { Section } from './section';
import { inside, pointIn } from './section';
import { describe } from './table';

/** Heights in CSS pixels, and the gutters beside the plot. */
const SIZES = {
  compact: { plot: 108, left: 38, right: 8, top: 16, bottom: 18 },
  full: { plot: 252, left: 56, right: 12, top: 34, bottom: 48 },
} as const;
const NOTHING: Folded = { boxes: [], folds: [] };

/** `open` is called with the finding that the memory is too small. */
export function createSbuf(open: (finding: Finding) => void): Section {
  const surface = createSurface();
  const words = el('span', { class: 'nki-memory-words' });
  const none = el('p', { class: 'nki-memory-none' });
  const callout = el('div', { class: 'nki-memory-callout' });
  const plot = el('div', { class: 'nki-memory-plot' }, surface.element, callout);
  const caption = el('div', { class: 'nki-memory-caption' }, el('b', {}, MEMORY_LABELS.sbuf), words);
  const pressure = createPressureRow();
  const legend = createLegend();
  const element = el('div', { class: 'nki-memory-sbuf' }, caption, plot, none, pressure.element, legend);
  let drawn = NOTHING;
  let frame: Frame | undefined;
  let time = 0;

  return {
    element,
    plot,
    axes: { x: 'bytes', y: 'rows' },
    draw(scene) {
      const missing = missingWords(scene);
      legend.hidden = scene.compact;
      plot.hidden = pressure.element.hidden = missing !== '';
      none.hidden = missing === '';
      setText(none, missing);
      setText(words, captionOf(scene));
      drawn = NOTHING;
      const place = missing === '' ? frameOf(scene, widthOf(plot)) : undefined;
      frame = place;
      if (place === undefined) return;
      time = scene.time;
      pressure.draw(scene);
      surface.resize(widthOf(plot), place.sizes.top + place.sizes.plot + place.sizes.bottom);
      const brush = { context: surface.context, scene };
      const folded = foldDead(boxesOf(brush, place), scene.outlined, measureOf(surface.context, scene.palette));
      drawn = folded;
      paintLast(surface, () => {
        surface.clear();
        paint(brush, place, folded);
      });
      showCallout(callout, scene, place, open);
    },
    describe(scene) {
      describe(surface.element, MEMORY_LABELS.sbuf, captionOf(scene), scene, scene.sbufTiles);
    },
    area: () => frame?.area,
    spotAt(event) {
      if (frame === undefined) return undefined;
      const [x, y] = pointIn(surface.element, event);
      const { area, shown } = frame;
      if (!inside(area, x, y, 6)) return undefined;
      const share = { x: (x - area.x) / area.width, y: (y - area.y) / area.height };
      const tile = boxAt(drawn.boxes, x, y)?.tile;
      return {
        space: 'sbuf',
        byte: Math.floor(partOf(shown.bytes, 0, Math.min(share.x, 1 - 1e-9)).to),
        partition: Math.floor(partOf(shown.rows, 0, Math.min(share.y, 1 - 1e-9)).to),
        time,
        tile,
        fold: tile === undefined ? boxAt(drawn.folds, x, y, 2) : undefined,
      };
    },
    stops() {
      const tiles = drawn.boxes.map(box => ({
        key: `t${box.tile.buffer.id}`,
        area: box,
        tile: box.tile,
        fold: undefined,
      }));
      const folds = drawn.folds.map(fold => ({
        key: `f${fold.boxes[0]?.tile.buffer.id ?? -1}`,
        area: fold,
        tile: undefined,
        fold,
      }));
      return [...tiles, ...folds].sort((a, b) => a.area.x - b.area.x || a.area.y - b.area.y);
    },
  };
}

function frameOf(scene: Scene, width: number): Frame | undefined {
  const sizes = scene.compact ? SIZES.compact : SIZES.full;
  const area = { x: sizes.left, y: sizes.top, width: width - sizes.left - sizes.right, height: sizes.plot };
  if (area.width < 40) return undefined;
  return { sizes, area, shown: scene.shown, capacity: scene.run.capacity.sbuf };
}

/** Why there is no map; '' if there is one. */
export function missingWords(scene: Scene): string {
  const { sbuf } = scene;
  if (sbuf.tiles.length > 0) return '';
  const where = scene.cores.length > 1 ? ` of ${scene.run.coreName(scene.core)}` : '';
  if (sbuf.homeless.length === 0) return `No tile of this run is in SBUF${where}.`;
  const tiles = format.plural(sbuf.homeless.length, 'tile');
  return `No addresses: the run has ${tiles} in SBUF${where} and does not say where.`;
}

/** The words beside "SBUF". */
export function captionOf(scene: Scene): string {
  const { run, sbuf, shown } = scene;
  const { sbuf: capacity, partitions } = run.capacity;
  const { bytes, rows } = shown;
  const whole = bytes.from <= 0 && bytes.to >= capacity;
  const cropped = whole ? '' : `addresses ${kib(bytes.from)}–${format.bytesOf(Math.round(bytes.to), capacity)} shown`;
  const high = rows.from > 0 || rows.to < partitions;
  const parts = [
    scene.compact && cropped !== '' ? '' : `${partitions} partitions × ${format.bytes(capacity)}`,
    cropped,
    high ? `partitions ${format.range(Math.floor(rows.from), Math.ceil(rows.to) - 1)}` : '',
    sbuf.homeless.length > 0 && sbuf.tiles.length > 0
      ? `${format.plural(sbuf.homeless.length, 'tile')} without room`
      : '',
  ];
  return parts.filter(part => part !== '').join(' · ');
}

/** The lower end of a range whose upper end has the unit. */
function kib(bytes: number): string {
  return format.significant(Math.round(bytes) / 1024);
}

function boxesOf(brush: Brush, frame: Frame): readonly Box[] {
  const { scene } = brush;
  return layoutMap({
    tiles: scene.sbufTiles,
    time: scene.time,
    shown: frame.shown,
    area: frame.area,
    share: (tile, at) => scene.usage.written(tile, at),
    measure: measureOf(brush.context, scene.palette),
    second: (tile, phase, share) => secondLine(scene, tile, phase, share),
  });
}

function paint(brush: Brush, frame: Frame, { boxes, folds }: Folded): void {
  const { scene } = brush;
  const { area } = frame;
  paintGround(brush, frame);
  for (const fold of folds) paintFold(brush, fold);
  for (const box of boxes) paintBox(brush, frame, box);
  paintCapacity(brush, frame);
  for (const box of boxes) paintOutline(brush, box.tile, box);
  paintStrip(brush, frame);
  if (scene.sbufTiles.length === 0) {
    const words = `nothing is in SBUF at ${format.time(scene.time)}`;
    paintAxisText(brush, words, area.x + area.width / 2, area.y + area.height / 2);
  } else if (boxes.length === 0 && folds.length === 0) {
    paintAxisText(brush, 'nothing lies in this range now', area.x + area.width / 2, area.y + area.height / 2);
  }
  if (scene.compact) return;
  paintClasses(brush, frame);
  paintGaps(brush, frame, gapsOf(scene.sbufTiles, frame.capacity));
}

function secondLine(scene: Scene, tile: Tile, phase: Phase, share: number): string {
  if (scene.compact) return '';
  if (phase === 'writing') return format.percent(share);
  if (phase === 'dead') return 'dead';
  return scene.hex && tile.placed ? format.address(tile.low) : format.bytes(tile.high - tile.low);
}

function paintBox(brush: Brush, frame: Frame, box: Box): void {
  const { tile, phase } = box;
  const strong = brush.scene.strong.has(tile.buffer.id);
  if (phase === 'dead') paintDead(brush, tile, box);
  else if (phase === 'live') paintLive(brush, tile, box);
  else paintWriting(brush, tile, box, box.share);
  const beyond = shareOf(frame.shown.bytes, frame.capacity) < 1;
  const edge = xOf(frame.capacity, frame.shown.bytes, frame.area);
  const over = beyond ? box.x + box.width - Math.max(box.x, edge) : 0;
  if (over > 0) paintBeyond(brush, { ...box, x: box.x + box.width - over, width: over });
  const hatched = phase === 'writing' || over > 0;
  paintLabel(brush, box.label, box, tile, hatched ? 'hatch' : phase === 'dead' ? 'none' : strong ? 'solid' : 'tint');
}
