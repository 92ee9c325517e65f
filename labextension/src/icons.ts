/** Small pictures for buttons and marks, 16 × 16, in the colour of the text around them. */
import { svg } from './dom';

/** Filled shapes, or lines where the path begins with a space. */
const PATHS = {
  first: 'M3 3h2v10H3zM13 3v10L6 8z',
  previous: 'M12 3v10L5 8z',
  play: 'M4 2.5v11L13.5 8z',
  pause: 'M4 3h3v10H4zM9 3h3v10H9z',
  next: 'M4 3v10l7-5z',
  last: 'M11 3h2v10h-2zM3 3v10l7-5z',
  line: ' M2.5 4h11M2.5 8h7M2.5 12h9',
  into: ' M4 2.5v6.5h8M9 6l3 3-3 3',
  along: ' M2.5 8h11M9.5 4l4 4-4 4',
  search: ' M10.2 10.2L14 14M11.5 7a4.5 4.5 0 1 1-9 0a4.5 4.5 0 0 1 9 0z',
  expand: ' M9.5 2.5h4v4M13.5 2.5L9 7M6.5 13.5h-4v-4M2.5 13.5L7 9',
  close: ' M4 4l8 8M12 4l-8 8',
  copy: ' M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  error:
    'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zM5.4 4.3L8 6.9l2.6-2.6 1.1 1.1L9.1 8l2.6 2.6-1.1 1.1L8 9.1l-2.6 2.6-1.1-1.1L6.9 8 4.3 5.4z',
  warning: ' M8 2.2L14.5 13.5h-13zM8 6.5v3.6M8 11.4v1',
  information: ' M14.3 8A6.3 6.3 0 1 1 1.7 8a6.3 6.3 0 0 1 12.6 0zM8 7.2v4M8 4.6v1',
  critical: 'M8 3l5 5-5 5-5-5z',
  sort: 'M4 7l4-4 4 4zM4 9l4 4 4-4z',
  down: ' M4.5 6.5L8 10l3.5-3.5',
  partTop: ' M2.5 3h11v10h-11zM2.5 7.5h11M4.5 5.3h7',
  partBottom: ' M2.5 3h11v10h-11zM2.5 7.5h11M4.5 10.2h7',
  partRight: ' M2.5 3h11v10h-11zM9.5 3v10M11.5 5.2v5.6',
  full: ' M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
  dock: ' M7 3.5H2.5v10h10V9M9.5 2.5h4v4M13.5 2.5L7.5 8.5',
  pin: ' M6 2.5h4M6.5 2.5v4.5L4.5 9.5h7L9.5 7V2.5M8 9.5v4',
  list: ' M2.5 4h2M6.5 4h7M2.5 8h2M6.5 8h7M2.5 12h2M6.5 12h7',
} as const;

export type Icon = keyof typeof PATHS;

/** The picture of a name; hidden from assistive technology, which reads the label of what it stands on. */
export function icon(name: Icon, size = 16): SVGSVGElement {
  const drawn = PATHS[name];
  const lines = drawn.startsWith(' ');
  const path = lines
    ? svg('path', { d: drawn.trim(), fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5 })
    : svg('path', { d: drawn, fill: 'currentColor', 'fill-rule': 'evenodd' });
  return svg(
    'svg',
    { viewBox: '0 0 16 16', width: size, height: size, 'aria-hidden': 'true', class: `nki-icon nki-icon-${name}` },
    path,
  );
}
