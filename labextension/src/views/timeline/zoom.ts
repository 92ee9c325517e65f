/** Times and places of a window, and how wheel, keys and drags change it. */
import type { Span } from '../../types';

/** A window of time on a width of pixels. */
export interface Scale extends Span {
  readonly width: number;
}

/** Zoom of one notch of a wheel or one press of a key. */
export const NOTCH = 1.25;

export function xOf(scale: Scale, time: number): number {
  return ((time - scale.from) / (scale.to - scale.from)) * scale.width;
}

export function timeOf(scale: Scale, x: number): number {
  return scale.from + (x / scale.width) * (scale.to - scale.from);
}

/** Picoseconds of so many pixels. */
export function spanOf(scale: Scale, pixels: number): number {
  return (pixels / scale.width) * (scale.to - scale.from);
}

/** The window `factor` times as wide, `anchor` staying where it is. Factors below 1 zoom in. */
export function zoomed(window: Span, anchor: number, factor: number): Span {
  return { from: anchor - (anchor - window.from) * factor, to: anchor + (window.to - anchor) * factor };
}

export function panned(window: Span, by: number): Span {
  return { from: window.from + by, to: window.to + by };
}

/** A window in which a range has `share` of the width. */
export function around(range: Span, share: number): Span {
  const rest = ((range.to - range.from) * (1 / share - 1)) / 2;
  return { from: range.from - rest, to: range.to + rest };
}

/** The anchor of a zoom by key: the cursor if it is seen, else the middle. */
export function anchorOf(window: Span, cursor: number): number {
  return cursor >= window.from && cursor <= window.to ? cursor : (window.from + window.to) / 2;
}

/** The zoom that a turn of the wheel asks for; trackpads turn by little, a notch of a mouse by 100 or 3 lines. */
export function wheelFactor(delta: number, mode: number): number {
  const notches = delta / (mode === 0 ? 100 : mode === 1 ? 3 : 1);
  return NOTCH ** Math.min(Math.max(notches, -4), 4);
}
