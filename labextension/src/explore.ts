/** All views of one run, laid out by width, driven by one state. */
import { drawn, following, type Drawn } from './following';
import type { Commands } from './commands';
import { createCommands, onAsked } from './commands';
import { el, setAttribute, uniqueId } from './dom';
import { createLayoutButtons } from './layout/buttons';
import { without } from './layout/parts';
import type { Playback } from './playback';
import { createPlayback } from './playback';
import { rest, rove } from './roving';
import { faultBanner, notice } from './states';
import { createSearching } from './searching';
import { createStepping } from './stepping';
import type { Changes, Context, State, View } from './types';
import { createDetails } from './views/details';
import { createEngines } from './views/engines';
import { ranked, sourceOf } from './views/findings';
import type { Tab } from './views/header';
import { createHeader } from './views/header';
import type { InstructionsView } from './views/instructions';
import { createInstructions } from './views/instructions';
import { createMemory } from './views/memory';
import { createMotion, type MotionView } from './views/motion';
import { createPinned } from './views/pinned';
import { createSource } from './views/source';
import { createSummary } from './views/summary';
import { createTimeline } from './views/timeline';
import { createTransport } from './views/transport';
import { createDrawing } from './drawing';
import { createValues, type ValuesView } from './views/values';
import { writesTo } from './views/values/tiles';
import { spoken } from './words';

type Layout = State['layout'];
type Panel = State['panel'];

/** Widths at which the layout changes, in CSS pixels. */
export function layoutOf(width: number): Layout {
  if (width < 760) return 'narrow';
  if (width < 1000) return 'medium';
  return width < 1800 ? 'wide' : 'widest';
}

/** Panels that share a place, by layout; those that are not named are always there. */
const SHARED: Readonly<Record<Layout, readonly Panel[]>> = {
  narrow: ['memory', 'motion', 'source', 'values', 'details'],
  medium: ['motion', 'source', 'values', 'details'],
  wide: ['source', 'values', 'details'],
  widest: ['source', 'values', 'details'],
};
const PANELS: Readonly<Record<Panel, string>> = {
  memory: 'Memory',
  motion: 'Motion',
  source: 'Source',
  values: 'Values',
  details: 'Details',
};

/** What changes which views there are, and how large. */
const ARRANGING = ['tab', 'panel', 'layout', 'expanded', 'theme', 'away', 'full', 'low'] as const;

export interface Explorer {
  readonly elements: readonly HTMLElement[];
  readonly commands: Commands;
  draw(state: State, changes: Changes): void;
  reload(): void;
  dispose(): void;
}

/** The views of the context's run. `showKeys` opens the list of keys. */
export function createExplorer(context: Context, showKeys: () => void): Explorer {
  const { run, store } = context;
  const panels: Record<Tab, HTMLElement> = {
    explore: el('div', { class: 'nki-explore', role: 'tabpanel', id: uniqueId('panel') }),
    summary: el('div', { class: 'nki-tabpanel', role: 'tabpanel', id: uniqueId('panel') }),
    instructions: el('div', { class: 'nki-tabpanel', role: 'tabpanel', id: uniqueId('panel') }),
  };
  // The table and the summary are made when they are first looked at.
  const late: { summary?: View; instructions?: InstructionsView } = {};
  const open = (tab: Tab): void => {
    if (tab === 'summary' && !late.summary) panels.summary.append((late.summary = createSummary(context)).element);
    if (tab === 'instructions' && !late.instructions) {
      panels.instructions.append((late.instructions = createInstructions(context)).element);
    }
  };

  const playback: Playback = createPlayback(
    run,
    store,
    step => stopsAt(context, step),
    step => context.speak(step >= 0 ? `Stopped at ${spoken(run, step)}` : 'Stopped'),
  );
  const parts = exploreParts(context);
  const searching = createSearching(() => run, store);
  const made = createCommands({
    run,
    store,
    playback,
    stepping: createStepping(run),
    speak: context.speak,
    openSearch() {
      if (store.state.tab === 'instructions') {
        late.instructions?.search();
        return;
      }
      store.set({ tab: 'explore', searching: true, away: without(store.state.away, 'timeline') });
      arrange(store.state);
      parts.search();
    },
    openDetails() {
      store.set({ tab: 'explore', panel: 'details', away: without(store.state.away, 'moment', 'panels') });
      parts.arrange(store.state);
      parts.details.element.focus();
    },
    expandMotion() {
      store.set({ tab: 'explore', away: without(store.state.away, 'moment') });
      parts.motion.expand();
    },
    showKeys,
    findingSteps: () => findingSteps(context),
  });
  // Where values are shown, the next thing to look at is the next NaN.
  const commands: Commands = {
    ...made,
    nextFinding: () => (parts.showsValues(store.state) ? parts.values.nextNonfinite() : made.nextFinding()),
  };
  onAsked(panels.explore, commands);
  const ids = { explore: panels.explore.id, summary: panels.summary.id, instructions: panels.instructions.id };
  const header = createHeader(context, ids, createLayoutButtons(commands, context.dock ?? null));
  for (const tab of Object.keys(panels) as Tab[]) panels[tab].setAttribute('aria-labelledby', header.tabIds[tab]);
  const transport = createTransport(context, commands);
  parts.fill(panels.explore, transport.element);
  if (run.coarse === true) for (const panel of [panels.summary, panels.instructions]) panel.dataset.coarse = BEING_READ;

  const exploreViews: readonly Drawn[] = [drawn(transport), ...parts.views];
  const arrange = (state: State): void => {
    open(state.tab);
    for (const tab of Object.keys(panels) as Tab[]) panels[tab].hidden = tab !== state.tab;
    setAttribute(panels.explore, 'data-expanded', state.expanded);
    setAttribute(panels.explore, 'data-folded', [...state.away].join(' ') || null);
    parts.arrange(state);
  };
  const inOrder = createDrawing();
  const drawAll = (state: State, changes: Changes): void => {
    arrange(state);
    header.draw(state, changes);
    // A view that was out of sight has missed what changed meanwhile.
    const told = ARRANGING.some(name => name !== 'theme' && changes.has(name)) ? everything(state) : changes;
    if (state.tab === 'explore') for (const view of exploreViews) view.draw(state, told);
    else late[state.tab]?.draw(state, told);
  };
  arrange(store.state);
  return {
    elements: [
      header.element,
      ...states(context),
      ...(run.steps ? [...Object.values(panels), parts.motion.dialog] : []),
    ],
    commands,
    draw(state, changes) {
      const isStill = !ARRANGING.some(name => changes.has(name));
      inOrder(isStill, () => drawAll(state, changes));
    },
    reload() {
      searching.again();
      for (const view of exploreViews) view.reload(run);
      for (const view of [header, late.summary, late.instructions]) view?.reload?.(run);
    },
    dispose() {
      playback.dispose();
      searching.dispose();
      for (const view of [header, ...exploreViews, late.summary, late.instructions]) view?.dispose();
    },
  };
}

/** All names of the state. */
export function everything(state: State): Changes {
  return new Set(Object.keys(state) as (keyof State)[]);
}

/** What is said above the views of a run that is not an ordinary one. */
function states(context: Context): HTMLElement[] {
  const { run } = context;
  const banner = faultBanner(context);
  if (banner) return [banner];
  if (run.steps === 0) {
    const text = 'The kernel ran without an instruction for any engine, so there is no time and no memory to show.';
    return [notice('information', 'No instructions', text)];
  }
  if (run.steps === 1) {
    return [notice('information', 'One instruction', `Nothing to overlap: ${spoken(run, 0)}.`)];
  }
  return [];
}

interface Parts {
  readonly views: readonly Drawn[];
  readonly details: View;
  /** Put the keyboard into the timeline's search. */
  search(): void;
  readonly motion: MotionView;
  readonly values: ValuesView;
  showsValues(state: State): boolean;
  /** Put the parts and the transport into their element. */
  fill(element: HTMLElement, transport: HTMLElement): void;
  arrange(state: State): void;
}

/** Stands for what a run's first message does not have. */
const BEING_READ = 'Being read …';

/** The timeline and what lies below the transport. */
function exploreParts(context: Context): Parts {
  const { store } = context;
  const timeline = createTimeline(context);
  const memory = createMemory(context);
  const motion = createMotion(context);
  const values = createValues(context);
  const engines = createEngines(context);
  const details = createDetails(context);
  const source = createSource(context);
  const pinned = createPinned(context);
  const slots = {
    timeline: el('div', { class: 'nki-slot nki-slot-timeline' }, timeline.element),
    memory: el('div', { class: 'nki-slot nki-slot-memory', id: uniqueId('slot') }, memory.element),
    motion: el('div', { class: 'nki-slot nki-slot-motion', id: uniqueId('slot') }, motion.element, engines.element),
    details: el('div', { class: 'nki-slot nki-slot-shared nki-slot-details', id: uniqueId('slot') }, details.element),
    values: el('div', { class: 'nki-slot nki-slot-shared nki-slot-values', id: uniqueId('slot') }, values.element),
    source: el('div', { class: 'nki-slot nki-slot-shared nki-slot-source', id: uniqueId('slot') }, source.element),
    pinned: el('div', { class: 'nki-slot nki-slot-pinned' }, pinned.element),
  };
  if (context.run.coarse === true)
    for (const slot of Object.values(slots)) if (slot !== slots.timeline) slot.dataset.coarse = BEING_READ;
  const tabs = el('div', { class: 'nki-panel-tabs', role: 'tablist', 'aria-label': 'Panels' });
  const buttons = new Map<Panel, HTMLElement>();
  for (const panel of Object.keys(PANELS) as Panel[]) {
    const button = el(
      'button',
      {
        id: uniqueId('tab'),
        type: 'button',
        role: 'tab',
        class: 'nki-tab',
        'data-label': PANELS[panel],
        'aria-controls': slots[panel].id,
        on: { click: () => store.set({ panel }), focus: () => store.set({ panel }) },
      },
      PANELS[panel],
    );
    buttons.set(panel, button);
    tabs.append(button);
  }
  rove(tabs, '.nki-tab');
  return {
    views: [
      ...[timeline, memory].map(drawn),
      following([motion, unlessHidden(engines), values, ...[details, source, pinned].map(unlessHidden)]),
    ],
    details,
    search: () => timeline.search(),
    motion,
    values,
    showsValues: ({ tab, panel, layout }) => tab === 'explore' && panel === 'values' && SHARED[layout].includes(panel),
    fill(element, transport) {
      const { timeline, memory, motion, source, values, details, pinned } = slots;
      element.append(timeline, transport, memory, motion, tabs, source, values, details, pinned);
    },
    arrange({ layout, panel, away }) {
      const hasMoment = !away.has('moment');
      const hasTabs = hasMoment && (layout === 'narrow' || !away.has('panels'));
      const shared = SHARED[layout];
      const shown = shared.includes(panel) ? panel : shared[0];
      tabs.hidden = shared.length === 0 || !hasTabs;
      slots.timeline.hidden = away.has('timeline');
      for (const [name, button] of buttons) {
        const here = shared.includes(name);
        button.hidden = !here;
        setAttribute(button, 'aria-selected', String(here && name === shown));
        slots[name].hidden = !hasMoment || (here && (name !== shown || !hasTabs));
        setAttribute(slots[name], 'role', here ? 'tabpanel' : null);
        setAttribute(slots[name], 'aria-labelledby', here ? button.id : null);
        if (here && name === shown) rest(tabs, '.nki-tab', button);
      }
      slots.pinned.hidden = layout !== 'narrow' || (shown === 'source' && hasMoment);
    },
  };
}

/** A view that is drawn only in sight: what brings it there has everything drawn. */
function unlessHidden(view: View): View {
  return {
    element: view.element,
    draw(state, changes) {
      if (view.element.closest('[hidden]') === null) view.draw(state, changes);
    },
    reload: run => view.reload?.(run),
    dispose: () => view.dispose(),
  };
}

/** Steps at lines with findings, and the fault, in order. */
function findingSteps({ run }: Context): readonly number[] {
  const steps = new Set<number>();
  if (run.fault >= 0) steps.add(run.fault);
  for (const finding of ranked(run)) {
    const source = sourceOf(run, finding);
    if (source >= 0 && finding.line > 0) for (const step of run.stepsAtLine(source, finding.line)) steps.add(step);
  }
  return [...steps].sort((one, other) => one - other);
}

function stopsAt({ run, store }: Context, step: number): boolean {
  const { breakpoints, stopTile } = store.state;
  if (writesTo(run, stopTile, step)) return true;
  if (!breakpoints.size || !run.has(step)) return false;
  const site = run.siteOf(step);
  return site !== null && breakpoints.has(`${site.source}:${site.line}`);
}
