/**
 * What visualizers and the page around them tell each other, as events of elements: the page's extension and the script
 * of widgets are loaded apart and share nothing else.
 */
import type { Place } from './place/place';
import type { Run } from './types';

/** A visualizer has a run, or got into the page: whoever knows the notebook may tell it more. */
export const DRAWN = 'nki-lab:drawn';
/** Put this run into a panel of its own; the detail is the place in it. */
export const DOCK = 'nki-lab:dock';
/** To a visualizer: the texts of the notebook's cells are those of the detail. */
export const CELLS = 'nki-lab:cells';

const PANELS = 'nkiPanels';

/** Say that this page has panels. */
export function offerPanels(): void {
  document.documentElement.dataset[PANELS] = '';
}

export function hasPanels(): boolean {
  return PANELS in document.documentElement.dataset;
}

export function tellHost(from: HTMLElement, name: string, detail: Place | null = null): void {
  from.dispatchEvent(new CustomEvent<Place | null>(name, { bubbles: true, composed: true, detail }));
}

/** Hear the texts of the notebook's cells. Returns what ends it. */
export function hearCells(root: HTMLElement, hear: (cells: readonly string[]) => void): () => void {
  const listener = (event: Event): void => hear((event as CustomEvent<readonly string[]>).detail);
  root.addEventListener(CELLS, listener);
  return () => root.removeEventListener(CELLS, listener);
}

/** How recordings call the source of a cell. */
const CELL = 'Cell In[';
/** What the recording of a cell makes of its magic line. */
const MAGIC = /^# (?=%%)/;
/** IPython's own syntax in other places: what ran is not what is written. */
const TRANSLATED = /^\s*[%!?]|^\s*get_ipython\(\)|\?\s*$/m;

/** The sources of a run that no cell has any more. */
export function editedSources(run: Pick<Run, 'sources'>, cells: readonly string[]): ReadonlySet<number> {
  const known = new Set(cells.map(plain));
  const edited = new Set<number>();
  run.sources.forEach(({ path, text }, index) => {
    const ran = plain(text.replace(MAGIC, ''));
    if (path.startsWith(CELL) && ran !== '' && !TRANSLATED.test(ran.replace(/^%%.*$/m, '')) && !known.has(ran))
      edited.add(index);
  });
  return edited;
}

function plain(text: string): string {
  return text
    .split(/\r\n|\r|\n/)
    .map(line => line.trimEnd())
    .join('\n')
    .trim();
}
