/** What the three pictures have in common: tiles that are pointed at, focused and zoomed. */

import type { Fold } from './folds';
import type { Area } from './map';
import type { Tile } from './occupancy';
import type { Scene } from './scene';

/** The memories on the chip. */
export type OnChip = 'sbuf' | 'psum';

/** A place of memory at a time, and what is drawn there. */
export interface Spot {
  readonly space: OnChip;
  readonly partition: number;
  readonly byte: number;
  readonly time: number;
  readonly tile: Tile | undefined;
  readonly fold: Fold | undefined;
}

/** Something that the focus can be on, in the coordinates of the picture. */
export interface Stop {
  /** The same for the same tile in every drawing. */
  readonly key: string;
  readonly area: Area;
  readonly tile: Tile | undefined;
  readonly fold: Fold | undefined;
}

export type Axis = 'time' | 'bytes' | 'rows';

/** A part of the view with a picture of tiles. */
export interface Section {
  readonly element: HTMLElement;
  /** What the canvas lies in; positioned elements within it have the canvas's coordinates. */
  readonly plot: HTMLElement;
  /** Which axes can be zoomed; none: neither. */
  readonly axes: { readonly x: Axis; readonly y: Axis } | null;
  draw(scene: Scene): void;
  /** Say on the picture what it shows. */
  describe(scene: Scene): void;
  /** The plot without its axes; undefined where nothing is drawn. */
  area(): Area | undefined;
  /** What lies at a point of the page. */
  spotAt(event: MouseEvent): Spot | undefined;
  /** What the focus moves over, in order of address. */
  stops(): readonly Stop[];
}

/** A point of the page in the coordinates of an element. */
export function pointIn(element: Element, event: MouseEvent): readonly [number, number] {
  const bounds = element.getBoundingClientRect();
  return [event.clientX - bounds.left, event.clientY - bounds.top];
}

export function inside(area: Area, x: number, y: number, halo = 0): boolean {
  return (
    x >= area.x - halo && x <= area.x + area.width + halo && y >= area.y - halo && y <= area.y + area.height + halo
  );
}
