/** Rows of single pixels, set by number and stretched onto a canvas. */
import type { Rgb } from './rgb';

/** Pixels of `width` × `height`, transparent at first. */
export interface Strip {
  readonly width: number;
  readonly height: number;
  set(x: number, y: number, colour: Rgb, opacity: number): void;
  /** Draws rows [from, from + rows) of it into a box, without smoothing. */
  draw(
    context: CanvasRenderingContext2D,
    from: number,
    rows: number,
    box: readonly [number, number, number, number],
  ): void;
}

export function createStrip(width: number, height: number): Strip {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext('2d');
  if (pen === null) throw new Error('This browser gives no canvas to draw on.');
  const image = pen.createImageData(width, height);
  let changed = true;
  return {
    width,
    height,
    set(x, y, [red, green, blue], opacity) {
      const at = 4 * (y * width + x);
      image.data[at] = red;
      image.data[at + 1] = green;
      image.data[at + 2] = blue;
      image.data[at + 3] = Math.round(255 * opacity);
      changed = true;
    },
    draw(context, from, rows, [x, y, wide, high]) {
      if (changed) pen.putImageData(image, 0, 0);
      changed = false;
      const smooth = context.imageSmoothingEnabled;
      context.imageSmoothingEnabled = false;
      context.drawImage(canvas, 0, from, width, rows, x, y, wide, high);
      context.imageSmoothingEnabled = smooth;
    },
  };
}
