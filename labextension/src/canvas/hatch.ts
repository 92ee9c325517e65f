/** Hatches: 45° is waiting or in flight, 135° is wrong. */

/** Pixels from one stroke to the next along an edge, and the width of a stroke across. */
const PERIOD = 6;
const STROKE = 1.5;

const made = new WeakMap<CanvasRenderingContext2D, Map<string, CanvasPattern>>();

/**
 * A pattern of diagonal strokes of a colour on nothing. It lies fixed to the canvas, so that neighbouring pieces join.
 * `angle` counts as on paper: 45 rises to the right.
 */
export function hatch(context: CanvasRenderingContext2D, colour: string, angle: 45 | 135): CanvasPattern {
  const ratio = window.devicePixelRatio || 1;
  let patterns = made.get(context);
  if (patterns === undefined) made.set(context, (patterns = new Map<string, CanvasPattern>()));
  const key = `${colour} ${angle} ${ratio}`;
  const known = patterns.get(key);
  if (known !== undefined) return known;
  const pattern = draw(context, colour, angle, ratio);
  patterns.set(key, pattern);
  return pattern;
}

function draw(context: CanvasRenderingContext2D, colour: string, angle: 45 | 135, ratio: number): CanvasPattern {
  // A whole number of device pixels, so that the tiles meet without a seam.
  const side = Math.max(2, Math.round(PERIOD * ratio));
  const tile = document.createElement('canvas');
  tile.width = tile.height = side;
  const pen = tile.getContext('2d');
  if (pen === null) throw new Error('This browser gives no canvas to draw on.');
  pen.strokeStyle = colour;
  pen.lineWidth = STROKE * ratio;
  for (const [fromX, fromY, toX, toY] of strokes(side, angle)) {
    pen.beginPath();
    pen.moveTo(fromX, fromY);
    pen.lineTo(toX, toY);
    pen.stroke();
  }
  const pattern = context.createPattern(tile, 'repeat');
  if (pattern === null) throw new Error('This browser makes no patterns.');
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

/** The diagonal of a tile and what its two neighbours reach into the corners, as [from x, y, to x, y]. */
export function strokes(side: number, angle: 45 | 135): readonly (readonly [number, number, number, number])[] {
  return [-1, 0, 1].map(shift => {
    const left = shift * side - side;
    const right = shift * side + 2 * side;
    return angle === 45 ? [left, 2 * side, right, -side] : [left, -side, right, 2 * side];
  });
}
