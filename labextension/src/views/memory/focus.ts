/** The focus on tiles: one stop of the Tab key for a picture; arrow keys move it from tile to tile. */

import { el, setAttribute } from '../../dom';
import type { Section, Stop } from './section';

export interface Focusing {
  readonly section: Section;
  readonly name: string;
  readonly labelOf: (stop: Stop) => string;
  readonly select: (stop: Stop) => void;
  /** Zoom or pan by a key; false: the key is none of those. */
  readonly zoom: (event: KeyboardEvent, stop: Stop | undefined) => boolean;
  readonly speak: (text: string) => void;
}

export interface Focus {
  /** Put the frame where its tile now stands. */
  draw(): void;
}

/** The place of a stop in the order; else the nearest one to where it stood. */
function placeIn(stops: readonly Stop[], key: string, before: Stop | undefined): number {
  const place = stops.findIndex(stop => stop.key === key);
  if (place >= 0 || before === undefined) return Math.max(place, 0);
  let best = 0;
  stops.forEach((stop, at) => {
    const nearest = stops[best];
    if (nearest !== undefined && apart(stop, before) < apart(nearest, before)) best = at;
  });
  return best;
}

function apart({ area }: Stop, { area: other }: Stop): number {
  return Math.hypot(
    area.x + area.width / 2 - other.x - other.width / 2,
    area.y + area.height / 2 - other.y - other.height / 2,
  );
}

/** The stop that an arrow leads to: the next in order to the sides, the nearest above or below. */
export function target(stops: readonly Stop[], place: number, key: string): number {
  const from = stops[place];
  if (from === undefined) return -1;
  if (key === 'ArrowRight') return Math.min(place + 1, stops.length - 1);
  if (key === 'ArrowLeft') return Math.max(place - 1, 0);
  if (key === 'Home') return 0;
  if (key === 'End') return stops.length - 1;
  if (key !== 'ArrowUp' && key !== 'ArrowDown') return -1;
  const way = key === 'ArrowDown' ? 1 : -1;
  let best = place;
  let least = Infinity;
  stops.forEach((stop, at) => {
    const down = way * (stop.area.y + stop.area.height / 2 - from.area.y - from.area.height / 2);
    const aside = Math.abs(stop.area.x + stop.area.width / 2 - from.area.x - from.area.width / 2);
    if (down > 0.5 && down + 2 * aside < least) [best, least] = [at, down + 2 * aside];
  });
  return best;
}

export function createFocus({ section, name, labelOf, select, zoom, speak }: Focusing): Focus {
  const frame = el('button', { type: 'button', class: 'nki-memory-focus', 'aria-label': name });
  section.plot.append(frame);
  let current: Stop | undefined;
  const has = (): boolean =>
    frame.getRootNode() instanceof Document ? document.activeElement === frame : frame.matches(':focus');
  const put = (stop: Stop | undefined): void => {
    current = stop;
    // Around no tile it is around the whole picture.
    const { x, y, width, height } = stop?.area ?? { x: 0, y: 0, width: -1, height: -1 };
    const size = (length: number): string => (length < 0 ? '100%' : `${length}px`);
    Object.assign(frame.style, { left: `${x}px`, top: `${y}px`, width: size(width), height: size(height) });
    setAttribute(frame, 'aria-label', stop === undefined ? `${name}: no tiles now` : `${name}: ${labelOf(stop)}`);
  };
  const settle = (): void => {
    const stops = section.stops();
    put(stops[placeIn(stops, current?.key ?? '', current)]);
  };
  frame.addEventListener('focus', settle);
  frame.addEventListener('click', event => {
    // A click of the pointer means what lies under it: the picture takes that.
    if (current === undefined || event.detail !== 0) return;
    select(current);
    event.stopPropagation();
  });
  frame.addEventListener('keydown', event => {
    if (zoom(event, current)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const stops = section.stops();
    const place = target(stops, placeIn(stops, current?.key ?? '', current), event.key);
    if (place < 0) return;
    event.preventDefault();
    event.stopPropagation();
    const stop = stops[place];
    if (stop === undefined || stop.key === current?.key) return;
    put(stop);
    speak(labelOf(stop));
  });
  return {
    draw() {
      if (has()) settle();
    },
  };
}
