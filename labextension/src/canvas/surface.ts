/** A canvas whose coordinates are CSS pixels, sharp at every device pixel ratio. */

export interface Surface {
  readonly element: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
  /** In CSS pixels. */
  readonly width: number;
  readonly height: number;
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  /**
   * Takes the given size, or that of the element's box, and the ratio of the screen it is on. True if anything
   * changed; the canvas is blank then.
   */
  resize(width?: number, height?: number): boolean;
  /** Makes it blank and forgets transforms, clips and styles of earlier drawing. */
  clear(): void;
}

/** No side of a canvas is longer than this in device pixels: above it browsers draw nothing at all. */
const LONGEST = 16384;

export function createSurface(): Surface {
  const element = document.createElement('canvas');
  const context = element.getContext('2d');
  if (context === null) throw new Error('This browser gives no canvas to draw on.');
  const size = { width: 0, height: 0, ratio: 1 };
  const surface: Surface = {
    element,
    context,
    get width() {
      return size.width;
    },
    get height() {
      return size.height;
    },
    get ratio() {
      return size.ratio;
    },
    resize(width, height) {
      const wide = width ?? element.clientWidth;
      const high = height ?? element.clientHeight;
      const ratio = ratioFor(wide, high);
      if (wide === size.width && high === size.height && ratio === size.ratio) return false;
      Object.assign(size, { width: wide, height: high, ratio });
      element.width = Math.max(1, Math.round(wide * ratio));
      element.height = Math.max(1, Math.round(high * ratio));
      if (width !== undefined) element.style.width = `${wide}px`;
      if (height !== undefined) element.style.height = `${high}px`;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      return true;
    },
    clear() {
      context.reset();
      context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    },
  };
  return surface;
}

function ratioFor(width: number, height: number): number {
  return Math.min(window.devicePixelRatio || 1, LONGEST / Math.max(1, width, height));
}

/** The place of a line of one device pixel nearest to `at`, so that it is not spread over two. */
export function crisp(at: number, ratio: number): number {
  return (Math.round(at * ratio - 0.5) + 0.5) / ratio;
}
