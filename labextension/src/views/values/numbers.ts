/** The numbers around the chosen element, as a grid, and the element in full. */
import { MARKS } from '../../_generated/schema';
import { contrast } from '../../tokens';
import { el, replace, setText } from '../../dom';
import * as format from '../../format';
import type { Rgb } from '../../canvas/rgb';
import type { TileValues } from '../../tile_values';
import type { Palette } from '../../types';
import type { Look, Scale } from './colours';
import type { Place } from './map';
import { brief, exact, hex, indices, marksText, ulps } from './text';

/** How numbers are shown, and what the rows are called. */
export interface Manner {
  readonly look: Look;
  readonly scale: Scale;
  readonly rows: string;
}

export interface Numbers {
  readonly element: HTMLElement;
  show(tile: TileValues, place: Place, size: Place, how: Manner, palette: Palette): void;
  /** The element in words. */
  spoken(tile: TileValues, place: Place): string;
}

export function createNumbers(choose: (place: Place) => void): Numbers {
  const where = el('span', { class: 'nki-quiet' });
  const grid = el('div', { class: 'nki-values-grid nki-code', role: 'grid', 'aria-label': 'Numbers' });
  const readout = el('div', { class: 'nki-values-readout nki-code' });
  const element = el(
    'section',
    { class: 'nki-values-numbers', 'aria-label': 'Numbers' },
    el('div', { class: 'nki-values-head' }, el('h4', {}, 'Numbers'), where),
    grid,
    readout,
  );
  grid.addEventListener('click', event => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-row]');
    if (cell) choose({ row: Number(cell.dataset.row), column: Number(cell.dataset.column) });
  });
  return {
    element,
    show(tile, place, size, how, palette) {
      const { header } = tile;
      const first = origin(tile, place, size);
      const rows = Math.min(size.row, header.rows);
      const columns = Math.min(size.column, header.columns);
      const last = { row: first.row + rows - 1, column: first.column + columns - 1 };
      setText(
        where,
        rows && columns
          ? `${how.rows} ${format.range(first.row, last.row)}, columns ${format.range(first.column, last.column)}`
          : 'the tile has no elements',
      );
      grid.style.setProperty('--columns', String(columns));
      const head = el(
        'div',
        { role: 'row', class: 'nki-values-row' },
        el('span', { role: 'columnheader', 'aria-label': 'row' }),
        ...Array.from({ length: columns }, (_, x) => el('span', { role: 'columnheader' }, first.column + x)),
      );
      const lines = Array.from({ length: rows }, (_, y) => {
        const row = first.row + y;
        return el(
          'div',
          { role: 'row', class: 'nki-values-row' },
          el('span', { role: 'rowheader' }, row),
          ...Array.from({ length: columns }, (_, x) =>
            cell(tile, { row, column: first.column + x }, place, how, palette),
          ),
        );
      });
      replace(grid, ...(rows && columns ? [head, ...lines] : []));
      replace(readout, ...(rows && columns ? inFull(tile, place) : []));
    },
    spoken(tile, place) {
      const found = tile.at(place.row, place.column);
      if (found === null) return `${indices(place.row, place.column, tile.header)}, number not loaded yet`;
      const marks = marksText(found.marks);
      const value = found.marks & MARKS.unwritten ? '' : exact(found.value, tile.header);
      return [indices(place.row, place.column, tile.header), value, marks === value ? '' : marks]
        .filter(text => text !== '')
        .join(', ');
    },
  };
}

/** Where the grid begins: the chosen element in its middle, as far as the tile goes. */
export function origin({ header }: TileValues, place: Place, size: Place): Place {
  const begin = (at: number, room: number, all: number): number =>
    Math.max(0, Math.min(at - Math.floor(room / 2), all - room));
  return { row: begin(place.row, size.row, header.rows), column: begin(place.column, size.column, header.columns) };
}

function cell(tile: TileValues, at: Place, chosen: Place, { look, scale }: Manner, palette: Palette): HTMLElement {
  const { header } = tile;
  const found = tile.at(at.row, at.column);
  const isChosen = at.row === chosen.row && at.column === chosen.column;
  const attributes = {
    role: 'gridcell',
    'data-row': at.row,
    'data-column': at.column,
    'aria-selected': String(isChosen),
  };
  if (found === null) return el('span', attributes, '…');
  const marks = marksText(found.marks);
  if (found.marks & MARKS.unwritten)
    return el('span', { ...attributes, class: 'nki-values-unwritten', title: marks }, '·');
  if (found.marks & (MARKS.nan | MARKS.inf)) {
    return el('span', { ...attributes, class: 'nki-values-broken', title: marks }, exact(found.value, header));
  }
  const text =
    look === 'bits' && found.bits !== null ? hex(found.bits, header.width).slice(2) : brief(found.value, header);
  const shown = look === 'bits' && found.bits !== null ? found.bits : found.value;
  const colour = scale.colour(shown);
  const style = { background: `rgb(${colour.join(' ')})`, color: readable(colour, palette) };
  const noted = marks === '' ? {} : { class: 'nki-values-noted', title: marks };
  return el('span', { ...attributes, ...noted, style }, text);
}

function readable(ground: Rgb, { ink, bg }: Palette): string {
  const colour = `#${ground.map(part => part.toString(16).padStart(2, '0')).join('')}`;
  return isHex(ink) && isHex(bg) && contrast(ink, colour) < contrast(bg, colour) ? 'var(--nki-bg)' : 'var(--nki-ink)';
}

function isHex(colour: string): boolean {
  return /^#[0-9a-f]{6}$/i.test(colour);
}

/** The element with its indices, bits, reference, error, and the scale of its block. */
function inFull(tile: TileValues, place: Place): HTMLElement[] {
  const { header } = tile;
  const found = tile.at(place.row, place.column);
  const name = el('b', {}, indices(place.row, place.column, header));
  if (found === null) return [el('div', {}, name, el('span', {}, 'not loaded yet'))];
  if (found.marks & MARKS.unwritten) return [el('div', {}, name, el('span', {}, 'never written'))];
  const lines = [
    el(
      'div',
      {},
      name,
      el('span', {}, exact(found.value, header)),
      found.bits !== null && el('span', { class: 'nki-quiet' }, hex(found.bits, header.width)),
    ),
  ];
  const power = tile.powerAt(place.row, place.column);
  if (power !== null) {
    const scaled = Number.isNaN(power) ? NaN : found.value * 2 ** power;
    lines.push(
      el(
        'div',
        {},
        el('span', {}, Number.isNaN(power) ? 'scale of its block: NaN' : `× 2^${power} (scale of its block)`),
        el('span', {}, `= ${exact(scaled, { kind: 'float', digits: header.digits })}`),
      ),
    );
  }
  if (found.reference !== null) {
    const apart = ulps(found, header);
    const error = found.error ?? 0;
    lines.push(
      el(
        'div',
        { class: 'nki-quiet' },
        el('span', {}, `ref ${exact(found.reference, { kind: 'float', digits: 7 })}`),
        el('span', {}, `error ${brief(error, { kind: 'float', digits: 2 })}`),
        apart !== null && el('span', {}, `${format.count(apart)} ulp`),
      ),
    );
  }
  const marks = marksText(found.marks);
  if (marks !== '') lines.push(el('div', { class: 'nki-quiet' }, el('span', {}, marks)));
  return lines;
}
