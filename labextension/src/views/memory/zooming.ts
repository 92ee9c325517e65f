/** Zoom and pan on both axes of a picture: wheel with Ctrl or ⌘, a dragged rectangle, keys. */

import { el } from '../../dom';
import type { Span, Store } from '../../types';
import { onDrag } from '../timeline/drag';
import { NOTCH, panned, wheelFactor, zoomed } from '../timeline/zoom';
import type { Zoom } from './ranges';
import { limited, partOf, UNZOOMED, zoomTo } from './ranges';
import type { Scene } from './scene';
import { rangeOf } from './scene';
import type { Axis, Section, Stop } from './section';
import { inside, pointIn } from './section';

export interface Zooming {
  readonly section: Section;
  readonly store: Store;
  readonly scene: () => Scene | undefined;
  readonly change: (zoom: Zoom) => void;
}

/** A dragged rectangle zooms an axis on which it is at least so long, in pixels. */
const LEAST = 8;
const PAN = 0.2;
/** The least that is shown of bytes and of partitions. */
const LIMITS = { bytes: 16, rows: 2 };

/** Reads and changes what an axis shows. */
export interface Axes {
  range(axis: Axis): Span;
  show(axis: Axis, range: Span): void;
  reset(): void;
}

export function axesOf({ store, scene: sceneNow, change }: Omit<Zooming, 'section'>): Axes {
  const most = (scene: Scene, axis: 'bytes' | 'rows'): number =>
    axis === 'bytes' ? rangeOf(scene) : scene.run.capacity.partitions;
  return {
    range(axis) {
      const scene = sceneNow();
      if (axis === 'time' || scene === undefined) return store.state.window;
      return scene.shown[axis];
    },
    show(axis, range) {
      const scene = sceneNow();
      if (scene === undefined) return;
      if (axis === 'time') {
        store.show(range);
        return;
      }
      const all = most(scene, axis);
      change({ ...scene.zoom, [axis]: zoomTo(limited(range, all, LIMITS[axis]), all) });
    },
    reset() {
      change(UNZOOMED);
    },
  };
}

/** Follow wheel and drags over a section. `dragged` says whether the last press was no click. */
export function bindZoom(section: Section, axes: Axes): { readonly dragged: () => boolean } {
  const { plot } = section;
  const band = el('div', { class: 'nki-memory-band', hidden: true });
  plot.append(band);
  let from: readonly [number, number] | null = null;
  let was = false;
  plot.addEventListener(
    'wheel',
    event => {
      const area = section.area();
      if (section.axes === null || area === undefined) return;
      const zooms = event.ctrlKey || event.metaKey;
      if (!zooms && !event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      const [x, y] = pointIn(plot, event);
      const delta = event.deltaY === 0 ? event.deltaX : event.deltaY;
      // Over the numbers of the vertical axis, or with Shift, it is that axis.
      const vertical = x < area.x || (zooms && event.shiftKey);
      const axis = vertical ? section.axes.y : section.axes.x;
      const share = vertical ? (y - area.y) / area.height : (x - area.x) / area.width;
      const range = axes.range(axis);
      const anchor = partOf(range, 0, share).to;
      if (zooms) axes.show(axis, zoomed(range, anchor, wheelFactor(delta, event.deltaMode)));
      else axes.show(axis, panned(range, Math.sign(delta) * PAN * 0.5 * (range.to - range.from)));
    },
    { passive: false },
  );
  onDrag(plot, {
    start({ x, y, event }) {
      was = false;
      const area = section.area();
      if (section.axes === null || area === undefined || event.target instanceof HTMLButtonElement) return false;
      from = inside(area, x, y) ? [x, y] : null;
      return from !== null;
    },
    move({ x, y, moved }) {
      const area = section.area();
      if (!moved || from === null || area === undefined) return;
      was = true;
      const [left, right] = ordered(from[0], x, area.x, area.x + area.width);
      const [top, bottom] = ordered(from[1], y, area.y, area.y + area.height);
      // A drag along one axis zooms only that.
      const flat = { x: right - left < LEAST, y: bottom - top < LEAST };
      Object.assign(band.style, {
        left: `${flat.x ? area.x : left}px`,
        width: `${flat.x ? area.width : right - left}px`,
        top: `${flat.y ? area.y : top}px`,
        height: `${flat.y ? area.height : bottom - top}px`,
      });
      band.hidden = flat.x && flat.y;
    },
    end({ x, y, moved }) {
      const area = section.area();
      band.hidden = true;
      const begun = from;
      from = null;
      if (!moved || begun === null || area === undefined || section.axes === null) return;
      const across = { one: (begun[0] - area.x) / area.width, other: (x - area.x) / area.width };
      const down = { one: (begun[1] - area.y) / area.height, other: (y - area.y) / area.height };
      const wide = Math.abs(x - begun[0]) >= LEAST;
      const high = Math.abs(y - begun[1]) >= LEAST;
      const [rangeX, rangeY] = [axes.range(section.axes.x), axes.range(section.axes.y)];
      if (wide) axes.show(section.axes.x, partOf(rangeX, across.one, across.other));
      if (high) axes.show(section.axes.y, partOf(rangeY, down.one, down.other));
    },
    cancel() {
      from = null;
      band.hidden = true;
    },
  });
  return { dragged: () => was };
}

function ordered(one: number, other: number, low: number, high: number): [number, number] {
  const [a, b] = one < other ? [one, other] : [other, one];
  return [Math.max(low, a), Math.min(high, b)];
}

/** Zoom or pan by a key: + and − the horizontal axis, with Alt the vertical one; 0 all; Shift with arrows moves. */
export function zoomByKey(event: KeyboardEvent, section: Section, axes: Axes, stop: Stop | undefined): boolean {
  const area = section.area();
  if (section.axes === null || area === undefined || event.ctrlKey || event.metaKey) return false;
  if (event.key === '0' && !event.altKey) {
    axes.reset();
    return true;
  }
  const factor = { '+': 1 / NOTCH, '=': 1 / NOTCH, '-': NOTCH, '−': NOTCH, _: NOTCH }[event.key];
  if (factor !== undefined) {
    const axis = event.altKey ? section.axes.y : section.axes.x;
    const range = axes.range(axis);
    const middle = { x: 0.5, y: 0.5 };
    if (stop !== undefined) {
      middle.x = (stop.area.x + stop.area.width / 2 - area.x) / area.width;
      middle.y = (stop.area.y + stop.area.height / 2 - area.y) / area.height;
    }
    axes.show(axis, zoomed(range, partOf(range, 0, event.altKey ? middle.y : middle.x).to, factor));
    return true;
  }
  const way = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (way === undefined || !event.shiftKey || event.altKey) return false;
  const axis = event.key === 'ArrowLeft' || event.key === 'ArrowRight' ? section.axes.x : section.axes.y;
  const range = axes.range(axis);
  axes.show(axis, panned(range, way * PAN * (range.to - range.from)));
  return true;
}
