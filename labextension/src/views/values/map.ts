/** The heat map of a tile: a picture with axes, badges on NaN and infinities, and a frame at the chosen element. */
import { rgbOf } from '../../canvas/rgb';
import { createSurface } from '../../canvas/surface';
import { el, setAttribute, setText, setStyle } from '../../dom';
import * as format from '../../format';
import type { Palette } from '../../types';
import type { TileValues } from '../../tile_values';
import type { Scale } from './colours';
import { gradient } from './colours';
import { fitCells, marksOf, paint, type Painted } from './picture';
import { brief } from './text';

/** Room for the numbers of rows, and for those of columns, in CSS pixels. */
const LEFT = 26;
const BELOW = 14;
const TICK_PX = 56;

export interface Place {
  readonly row: number;
  readonly column: number;
}

/** What a map shows. */
export interface Shown {
  readonly tile: TileValues;
  readonly of: ArrayLike<number>;
  readonly scale: Scale;
  readonly title: string;
  readonly note: string;
  /** Of what numbers on the bar are. */
  readonly hasBar: boolean;
  /** Marks are those of the tile; else NaN and infinities of what is shown. */
  readonly ownMarks: boolean;
}

export interface HeatMap {
  readonly element: HTMLElement;
  show(shown: Shown | null, palette: Palette, height: number): void;
  /** Frame an element. */
  frame(place: Place, size: Place): void;
  /** The elements that fit in a frame of the grid of numbers. */
  focus(): void;
}

export interface Handlers {
  choose(place: Place): void;
  move(rows: number, columns: number): void;
}

/** A map that tells which element is pointed at. `label` names it for readers. */
export function createMap(handlers: Handlers): HeatMap {
  const surface = createSurface();
  const overlay = createSurface();
  const title = el('span', { class: 'nki-values-map-title' });
  const note = el('span', { class: 'nki-quiet nki-ellipsis' });
  const bar = el('div', { class: 'nki-values-bar' });
  const [lowest, middle, highest] = [el('span'), el('span'), el('span')];
  const legend = el(
    'div',
    { class: 'nki-values-legend' },
    bar,
    el('div', { class: 'nki-values-bar-ends' }, lowest, middle, highest),
  );
  const box = el(
    'div',
    { class: 'nki-values-box', role: 'application', tabindex: 0, 'aria-roledescription': 'heat map' },
    surface.element,
    overlay.element,
  );
  overlay.element.classList.add('nki-values-overlay');
  const element = el('figure', { class: 'nki-values-map' }, el('figcaption', {}, title, note), box, legend);
  let painted: Painted | null = null;
  let shown: Shown | null = null;
  let colours: Palette | null = null;
  let at: Place = { row: 0, column: 0 };
  let size: Place = { row: 1, column: 1 };

  const cellSize = (): readonly [number, number] => {
    const ratio = surface.ratio || 1;
    return painted === null ? [1, 1] : [painted.fit.wide / ratio, painted.fit.high / ratio];
  };
  const pointed = (event: PointerEvent): void => {
    if (painted === null || shown === null) return;
    const bounds = overlay.element.getBoundingClientRect();
    const [wide, high] = cellSize();
    const { header, cells } = shown.tile;
    const x = Math.floor(Math.floor((event.clientX - bounds.left - LEFT) / wide) * painted.fit.across);
    const y = Math.floor(Math.floor((event.clientY - bounds.top) / high) * painted.fit.down);
    if (x < 0 || y < 0 || x >= cells.columns || y >= cells.rows) return;
    handlers.choose({ row: y * header.row_bin, column: x * header.column_bin });
  };
  box.addEventListener('pointerdown', event => {
    pointed(event);
    box.setPointerCapture?.(event.pointerId);
  });
  box.addEventListener('pointermove', event => {
    if (event.buttons & 1) pointed(event);
  });
  box.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || shown === null) return;
    const by = MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const far = event.shiftKey ? 8 : 1;
    handlers.move(by[0] * far, by[1] * far);
  });

  const drawFrame = (): void => {
    overlay.clear();
    if (painted === null || shown === null || colours === null) return;
    const pen = overlay.context;
    const { header } = shown.tile;
    const [wide, high] = cellSize();
    const px = (column: number): number => LEFT + (column / header.column_bin / painted!.fit.across) * wide;
    const py = (row: number): number => (row / header.row_bin / painted!.fit.down) * high;
    badges(pen, painted, colours, wide, high, shown.tile);
    const left = px(at.column);
    const top = py(at.row);
    const right = Math.max(px(Math.min(header.columns, at.column + size.column)), left + 4);
    const bottom = Math.max(py(Math.min(header.rows, at.row + size.row)), top + 4);
    pen.lineWidth = 3.5;
    pen.strokeStyle = colours.bg;
    pen.strokeRect(left - 1, top - 1, right - left + 2, bottom - top + 2);
    pen.lineWidth = 1.8;
    pen.strokeStyle = colours.ink;
    pen.strokeRect(left - 1, top - 1, right - left + 2, bottom - top + 2);
  };

  return {
    element,
    focus: () => box.focus(),
    show(next, palette, height) {
      shown = next;
      colours = palette;
      element.hidden = next === null;
      if (next === null) return;
      const { tile, scale } = next;
      setText(title, next.title);
      setText(note, next.note);
      setAttribute(box, 'aria-label', `${next.title}, ${format.shape([tile.header.rows, tile.header.columns])}`);
      const width = Math.max(40, box.clientWidth - LEFT - 2);
      const ratio = window.devicePixelRatio || 1;
      const fit = fitCells(tile.cells, Math.floor(width * ratio), Math.floor(height * ratio));
      const tall = Math.max(8, (fit.rows * fit.high) / ratio);
      for (const one of [surface, overlay]) one.resize(LEFT + width, Math.ceil(tall) + BELOW);
      surface.clear();
      const cells = next.ownMarks ? tile.cells : { ...tile.cells, marks: marksOf(next.of, tile.cells.marks) };
      painted = paint(cells, next.of, fit, scale, [rgbOf(palette.ink), rgbOf(palette.bg), rgbOf(palette.faint)]);
      const [wide, high] = cellSize();
      const picture = [LEFT, 0, fit.columns * wide, fit.rows * high] as const;
      painted.strip.draw(surface.context, 0, Math.max(1, fit.rows), picture);
      axes(surface.context, palette, tile, picture);
      legend.hidden = !next.hasBar;
      setStyle(bar, { background: gradient(scale) });
      const digits = { kind: 'float', digits: 3 };
      setText(lowest, brief(scale.least, digits));
      setText(
        middle,
        brief(scale.isLog ? Math.sqrt(scale.least * scale.most) : (scale.least + scale.most) / 2, digits),
      );
      setText(highest, brief(scale.most, digits));
      drawFrame();
    },
    frame(place, of) {
      at = place;
      size = of;
      drawFrame();
    },
  };
}

const MOVES: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-32, 0],
  PageDown: [32, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/** Numbers of rows at the left, of columns below. */
function axes(
  pen: CanvasRenderingContext2D,
  palette: Palette,
  { header, cells }: TileValues,
  [left, top, width, height]: readonly [number, number, number, number],
): void {
  pen.font = `10px ${palette.uiFont}`;
  pen.fillStyle = palette.ink3;
  pen.textBaseline = 'middle';
  pen.textAlign = 'right';
  if (header.rows > 0) {
    pen.fillText('0', left - 5, top + 6);
    if (header.rows > 1 && height > 24) pen.fillText(String(header.rows - 1), left - 5, top + height - 5);
    if (header.rows > 2 && height > 90) pen.fillText(String(header.rows >> 1), left - 5, top + height / 2);
  }
  pen.textBaseline = 'top';
  pen.textAlign = 'left';
  if (cells.columns === 0) {
    pen.fillText('no elements', left, top + 2);
    return;
  }
  const count = Math.max(1, Math.min(4, Math.floor(width / TICK_PX)));
  const step = Math.max(1, Math.round(header.columns / count));
  for (let column = 0; column < header.columns; column += step) {
    const x = left + (column / header.columns) * width;
    if (x + 20 <= left + width || column === 0) pen.fillText(String(column), x, top + height + 3);
  }
}

/** Rings around patches of NaN and infinities, with how many there are. */
function badges(
  pen: CanvasRenderingContext2D,
  { patches, fit }: Painted,
  palette: Palette,
  wide: number,
  high: number,
  tile: TileValues,
): void {
  pen.font = `600 10px ${palette.uiFont}`;
  pen.textBaseline = 'middle';
  pen.textAlign = 'left';
  const exact = tile.isWhole && fit.across === 1 && fit.down === 1;
  for (const patch of patches) {
    const left = LEFT + patch.left * wide - 2;
    const top = patch.top * high - 2;
    const width = (patch.right - patch.left + 1) * wide + 4;
    const height = (patch.bottom - patch.top + 1) * high + 4;
    pen.lineWidth = 1.5;
    pen.strokeStyle = palette.ink;
    pen.beginPath();
    pen.roundRect(left, top, width, height, Math.min(4, width / 2, height / 2));
    pen.stroke();
    const name = patch.nan > 0 ? 'NaN' : 'Inf';
    const count = patch.nan || patch.inf;
    const text = count > 1 && exact ? `${format.count(count)} ${name}` : name;
    const room = pen.measureText(text).width + 8;
    const x = left + width + room + 4 < surfaceWidth(pen) ? left + width + 3 : Math.max(LEFT, left - room - 3);
    const y = Math.max(1, top + height / 2 - 8);
    pen.fillStyle = palette.ink;
    pen.beginPath();
    pen.roundRect(x, y, room, 16, 3);
    pen.fill();
    pen.fillStyle = palette.bg;
    pen.fillText(text, x + 4, y + 8.5);
  }
}

function surfaceWidth(pen: CanvasRenderingContext2D): number {
  return pen.canvas.clientWidth || pen.canvas.width;
}
