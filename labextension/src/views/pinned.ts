/** The line of the cursor between its neighbours, for layouts that show no source otherwise. */
import { el, replace, uniqueId } from '../dom';
import type { Context, View } from '../types';
import type { Listing } from './source_line';
import { createListings, markLine, sourceLine } from './source_line';

export function createPinned(context: Context): View {
  const { store } = context;
  const element = el('section', { class: 'nki-pinned', role: 'region', 'aria-label': 'Source at the cursor' });
  const listings = createListings(context.run);
  const draw = (): void => {
    const { line } = store.state;
    if (!line) {
      replace(element);
      return;
    }
    const listing = listings(line.source);
    const around = [line.line - 1, line.line, line.line + 1];
    const shown = around.filter(item => item > 0 && item <= listing.lines.length);
    replace(element, ...shown.map(item => pinnedLine(context, listing, item)));
  };
  draw();
  return {
    element,
    draw(_, changes) {
      if (changes.has('line') || changes.has('breakpoints') || changes.has('layout')) draw();
    },
    dispose: () => undefined,
  };
}

/** A line that is no row of a grid. */
function pinnedLine(context: Context, listing: Listing, line: number): HTMLElement {
  const row = sourceLine(context, listing, line, uniqueId('pinned'));
  row.removeAttribute('role');
  row.removeAttribute('aria-rowindex');
  for (const cell of row.children) cell.removeAttribute('role');
  if (markLine(row, context, listing.source, line)) row.setAttribute('aria-current', 'true');
  row.title = row.lastElementChild?.textContent.trim() ?? '';
  return row;
}
