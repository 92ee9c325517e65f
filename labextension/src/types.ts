/**
 * What the parts of the visualizer know of each other: the run as they read it, the state that they share, and the
 * form of a view. Times are picoseconds and bytes are bytes, both as plain numbers; steps, rows and all ids count
 * from 0 here and from 1 on the page.
 */

import type { ChartsHost } from './charts';
import type {
  Arrangement,
  BufferKind,
  Capacity,
  DescriptorMode,
  EdgeKind,
  Finding,
  Hue,
  IndexUseHeader,
  IterationState,
  LaneTime,
  LineTime,
  LoopFigures,
  Machine,
  Memory,
  Origin,
  Part,
  PathTime,
  Role,
  Sentence,
  Source,
  VALUE_TIMES,
} from './_generated/schema';

import type { TileValues } from './tile_values';

export type { Finding, Hue, LaneTime, Part, PathTime, Sentence, Source };

/** An engine or a DMA queue, in drawing order. */
export interface Lane {
  readonly id: number;
  readonly name: string;
  readonly kind: 'engine' | 'dma';
  readonly core: number;
  /** The rank that it belongs to; 0 in a run of one. */
  readonly rank: number;
  readonly hue: Hue;
  /** How the page calls it: Tensor, Vector, Scalar, GpSimd, Sync, DMA q0. */
  readonly label: string;
}

/**
 * The loaded rows, in the order of steps: place p of each column is step `first + p`. A run that is too large to send
 * whole is loaded a range of steps at a time.
 */
export interface Rows {
  /** Step of the first loaded row. */
  readonly first: number;
  readonly count: number;
  /** Number of the instruction in program order. */
  readonly row: Uint32Array;
  readonly start: Float64Array;
  readonly duration: Float64Array;
  /** When its results are visible. */
  readonly ready: Float64Array;
  /** How long its lane waited just before it, `setup` included. */
  readonly wait: Float64Array;
  readonly setup: Float64Array;
  /** How long before start its descriptors began to be made; 0: unknown, or it has none. */
  readonly lead: Float64Array;
  readonly lane: Uint16Array;
  readonly op: Uint32Array;
  /** -1: none. */
  readonly site: Int32Array;
  /** Innermost iteration of a loop; -1: none. */
  readonly iteration: Int32Array;
  /** First place in `accesses`; the end is the next row's; one longer than `count`. */
  readonly access: Uint32Array;
  /** Step whose end let this one start; -1: none. */
  readonly after: Int32Array;
  readonly work: Float64Array;
  readonly bytes: Float64Array;
  /** Own work as a share of its duration, 0 to 1. */
  readonly pace: Float32Array;
  /** What the wait was for, what the end of it went to, what made it slower: numbers of `stalls`, 0 is nothing. */
  readonly stall: Uint8Array;
  readonly setupStall: Uint8Array;
  readonly held: Uint8Array;
  /** Number of `CONFIDENCES`. */
  readonly confidence: Uint8Array;
  /** 1 on the critical path. */
  readonly critical: Uint8Array;
}

/** An operand, in the order of the instruction's operands. */
export interface Access {
  readonly view: number;
  readonly role: Role;
}

/** Accesses of one buffer in order of step, several of a step in the order of its operands. */
export interface Uses {
  readonly steps: Uint32Array;
  /** Numbers of `ROLES`. */
  readonly roles: Uint8Array;
}

/** A part of a buffer. */
export interface TileView {
  readonly buffer: number;
  readonly dtype: string;
  /** [size, step] of each dimension; on-chip the first is the partition dimension. */
  readonly dims: readonly (readonly [number, number])[];
  /** In elements of dtype from the buffer's start. */
  readonly offset: number;
  /** Number of `INDIRECTIONS`. */
  readonly indirect: number;
  /** The view that holds its run-time indices; -1: a register does, none, or not recorded. */
  readonly index: number;
}

/** An allocation. `lifetime` is null where nothing uses it. */
export interface Buffer {
  readonly id: number;
  /** The user's name, or one made from its place ("tile 12"). */
  readonly name: string;
  readonly space: Memory;
  readonly kind: BufferKind;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** First partition, -1: no address. */
  readonly partition: number;
  readonly partitions: number;
  /** First byte within each partition, -1: no address. */
  readonly byte: number;
  readonly partitionBytes: number;
  readonly site: number;
  /** The core in whose memory it is; 0 for shared HBM. */
  readonly core: number;
  readonly lifetime: Lifetime | null;
}

/** The memories that each core has of its own. */
export type OnChip = 'sbuf' | 'psum';

/** The fullest moment of a memory: live bytes in its fullest partition, on that core, from that time on. */
export interface Peak {
  readonly bytes: number;
  readonly core: number;
  readonly time: number;
}

export interface Lifetime {
  readonly start: number;
  /** When what fills it is visible (writes before its first read, and of parts that were not there): it is whole now. */
  readonly written: number;
  /** End of the last read. */
  readonly end: number;
  readonly firstStep: number;
  readonly lastStep: number;
  /** Lane of the first instruction that writes it; -1: none. */
  readonly writer: number;
}

/** A place in the source; lines and columns as on the page: lines from 1, columns in UTF-16 units from 0. */
export interface Site {
  readonly source: number;
  readonly line: number;
  readonly column: number;
  readonly endLine: number;
  readonly endColumn: number;
  readonly function: string;
}

export interface LoopIteration {
  readonly loop: string;
  readonly value: number;
}

/** A loop of the source on one core, with its figures; times in picoseconds. */
export interface Loop extends LoopFigures {
  readonly id: number;
}

/** An iteration: the value of the loop's variable, its place among the iterations of its loop, from 0, and times. */
export interface IterationFacts {
  readonly loop: Loop;
  readonly value: number;
  readonly place: number;
  readonly begin: number;
  readonly end: number;
  /** What it adds to the time of its execution: from the end of those before it. */
  readonly interval: number;
  readonly state: IterationState;
  /** Its instructions, those of loops within it included. */
  readonly rows: number;
}

/** The loops of a run; iterations are numbered as the rows' column `iteration` does. */
export interface LoopTrack {
  /** Outer ones before inner ones. */
  readonly loops: readonly Loop[];
  /** The iterations of a loop that have instructions, execution by execution. */
  iterations(loop: number): Int32Array;
  begin(iteration: number): number;
  end(iteration: number): number;
  interval(iteration: number): number;
  state(iteration: number): IterationState;
  /** -1: in none, as it has no instruction. */
  loopOf(iteration: number): number;
  /** Which execution of its loop it belongs to; executions of all loops have different numbers. */
  execution(iteration: number): number;
  /** The next or previous iteration of its loop; -1: none. */
  next(iteration: number, by: 1 | -1): number;
  facts(iteration: number): IterationFacts;
}

/** The part of a rank in a call of a collective. */
export interface Exchange {
  readonly call: number;
  readonly rank: number;
  /** The collective. */
  readonly what: string;
  /** The rank that it receives from; -1: from all others, -2: from none. */
  readonly source: number;
  /** When its data is there. */
  readonly sent: number;
  /** The step whose result is the last of it; -1: none, the kernel was called with it. */
  readonly sends: number;
  /** The first step that brings what arrives; -1: none. */
  readonly row: number;
  readonly bytes: number;
}

export interface Op {
  readonly name: string;
  readonly detail: string;
  /** The unit of the work of its rows; '' where it is unknown. */
  readonly workUnit: string;
}

/** What the compiler model did with a row, and for how many rows of the program its execution stands. */
export interface Change {
  readonly origin: Origin;
  readonly standsFor: number;
}

/** How an instruction treats its operands; what a recording does not have is empty, 'undeclared', -1 or null. */
export interface Treatment {
  /** Names of the operands, in the order of its accesses. */
  readonly operands: readonly string[];
  /** Where elements of its result come from. */
  readonly arrangement: Arrangement;
  /** Places of the operands that the PE array holds and that stream through it. */
  readonly stationary: number;
  readonly moving: number;
  readonly transfer: Transfer | null;
}

/** The descriptors of a DMA transfer. */
export interface Transfer {
  readonly mode: DescriptorMode;
  readonly descriptors: number;
  readonly descriptorBytes: number;
  /** DMA engines of its core, by number. */
  readonly engines: readonly number[];
  /** Picoseconds from one such transfer to the next, back to back. */
  readonly cadence: number;
  /** How long its descriptors keep their generator busy, in picoseconds; 0: not at all, or unknown. */
  readonly making: number;
}

export interface Edge {
  /** The step at the other end; it may be outside the loaded range. */
  readonly step: number;
  /** lane: the row before it on its lane, which let it start. */
  readonly kind: EdgeKind | 'lane';
  /** The one that decided the start. */
  readonly binding: boolean;
}

/** Work and waits of a lane per bucket of time, exact sums. `time[b * reasons + r]`: r = 0 is work, else a stall. */
export interface Buckets {
  readonly width: number;
  readonly from: number;
  readonly count: number;
  /** Picoseconds of each bucket in which the lane executes. */
  readonly busy: Float64Array;
  /** Waiting picoseconds of each bucket. */
  readonly waiting: Float64Array;
  /** The stall waited for longest in each bucket; 0: none. */
  readonly cause: Uint8Array;
  /** Rows that start in each bucket. */
  readonly rows: Uint32Array;
  /** 1 where a row of the critical path lies. */
  readonly critical: Uint8Array;
}

/** Where a line's time went, and its share of the whole critical path. */
export interface LineShare extends LineTime {
  readonly share: number;
}

/** The run. All methods are pure and fast enough for a frame unless they say otherwise. */
export interface Run {
  readonly kernel: string;
  readonly target: string;
  /** Rows of the whole run, loaded or not. */
  readonly steps: number;
  /** Those of them that are executed. */
  readonly instructions: number;
  /** Whether lanes and their sums are all that is there: the whole run follows. */
  readonly coarse?: boolean;
  readonly makespan: number;
  readonly lanes: readonly Lane[];
  /** The cores that it ran on, ascending. */
  readonly cores: readonly number[];
  /** How many ranks were recorded together; 1 in a run of its own. */
  readonly ranks: number;
  /** The rank that others wait for longest; -1: none. */
  readonly slowest: number;
  /** The words for a core where there are several: "core 1", "rank 2", "rank 2, core 1"; else ''. */
  coreName(core: number): string;
  /** Null where there is no loop, or nothing is known of them. */
  readonly loopTrack: LoopTrack | null;
  /** What ranks send each other, in the order of the calls. */
  readonly exchanges: readonly Exchange[];
  readonly stalls: readonly string[];
  readonly rows: Rows;
  readonly sources: readonly Source[];
  readonly buffers: readonly Buffer[];
  /** The names of design section 7: makespan_ns, engine_busy_ns, stall_ns, mfu, confidence … */
  readonly summary: Readonly<Record<string, unknown>>;
  readonly findings: readonly Finding[];
  /** The step at whose instruction the run failed; -1: it did not. */
  readonly fault: number;
  /** True where it failed after that step, before another instruction was issued. */
  readonly faultAfter: boolean;
  /** Capacity of the target, per partition. */
  readonly capacity: Capacity;
  /** Facts of the target; null where nobody knows them. */
  readonly machine: Machine | null;
  /** Sums of the whole run, as the message's header has them (`path`, `lane_times`). */
  readonly path: PathTime;
  readonly laneTimes: readonly LaneTime[];
  /** Picoseconds of the whole run in which any DMA queue of a core executes. */
  dmaTime(core: number): number;
  /** Picoseconds of the whole run in which no queue of a core executes before one will; null: not known. */
  dmaWaiting(core: number): number | null;
  /** What holds the run back, the most important first. */
  readonly bottlenecks: readonly Sentence[];
  /** True if `step` is loaded. */
  has(step: number): boolean;
  /** True if every row between two times is loaded; else bars are not to be had there and `buckets` are spread evenly
   * within the stretches of the message's `zoom`. */
  covers(from: number, to: number): boolean;
  /** How many rows start between two times, loaded or not; about, where they are not. */
  rowsBetween(from: number, to: number): number;
  op(step: number): Op;
  treatment(step: number): Treatment;
  /** What the compiler model did with a loaded step. */
  change(step: number): Change;
  site(id: number): Site | null;
  siteOf(step: number): Site | null;
  /** The iterations around an iteration, itself included, innermost first; numbers of the rows' column. */
  iterationsAround(iteration: number): readonly number[];
  /** Loops around a step, outermost first. */
  iterations(step: number): readonly LoopIteration[];
  accesses(step: number): readonly Access[];
  /** For each loaded row the sum of what `of` gives for the views that it accesses; asked once for a view. */
  sumsOver(of: (view: number) => number): Float64Array;
  /** The loaded accesses of a buffer; the first call takes time in proportion to all of them. */
  uses(buffer: number): Uses;
  view(id: number): TileView;
  /** A short name of what a row works on, for the bar: the written tile, with its indices. */
  label(step: number): string;
  /** The tile that the wait before a step was for, as words: "k[j]"; '' if none. */
  awaited(step: number): string;
  /** Hue of what a stall reason waits for, given the row that waits. */
  stallHue(step: number, stall: number): Hue;
  predecessors(step: number): readonly Edge[];
  successors(step: number): readonly Edge[];
  /** Loaded steps of a lane in order of start. */
  laneSteps(lane: number): Uint32Array;
  /** The last loaded step of a lane that starts at or before a time; -1: none. */
  laneAt(lane: number, time: number): number;
  /** The last step that starts at or before a time; about, where rows are not loaded (`has` tells). */
  stepAt(time: number): number;
  /** Steps of the critical path, loaded ones. */
  readonly criticalPath: Uint32Array;
  /** Picoseconds between two times in which any DMA queue of a core executes; where not all rows of that time are loaded,
   * the sum of its queues, at most all of it. */
  dmaBusy(core: number, from: number, to: number): number;
  /** Exact sums of a lane between two times in `count` equal buckets. */
  buckets(lane: number, from: number, to: number, count: number): Buckets;
  /** Live bytes in the fullest partition of a core's memory: step function as pairs of time and bytes, cut to a window
   * and thinned to maxima. */
  usage(space: OnChip, core: number, from: number, to: number, count: number): Float64Array;
  /** The largest value of `usage` over the whole run, of one core or of all; null where nothing is known. */
  peak(space: OnChip, core?: number): Peak | null;
  /** Buffers of a core's memory with an address whose lifetime touches [from, to]. */
  living(space: OnChip, core: number, from: number, to: number): readonly Buffer[];
  /** Shares by line, largest first. */
  readonly lines: readonly LineShare[];
  /** Steps at a line of source. */
  stepsAtLine(source: number, line: number): Uint32Array;
}

/** Where more rows come from; only a run that is not loaded whole has one. */
export interface Host {
  /** Ask for rows; they come as a message, after which views are told to `reload`. */
  requestSteps(first: number, count: number): void;
}

/** A question for the values of a tile; see nki_lab/widgets/value_answers.py. */
export interface ValuesQuestion {
  readonly step: number;
  readonly buffer: number;
  readonly when: (typeof VALUE_TIMES)[number];
  /** A reference, or ''. */
  readonly against: string;
  /** Row and column where the numbers begin, where they do not come all. */
  readonly excerpt: readonly [number, number];
}

/** What comes back: values, why there are none, or what is waited for. */
export type ValuesAnswer =
  | { readonly kind: 'tile'; readonly tile: TileValues; readonly pinned: boolean }
  | { readonly kind: 'none'; readonly reason: string }
  | { readonly kind: 'waiting'; readonly reason: string };

/** The run-time indices that move an operand; why nobody knows them; or what is waited for. */
export type IndicesAnswer =
  | { readonly kind: 'indices'; readonly use: IndexUseHeader }
  | { readonly kind: 'none'; readonly reason: string }
  | { readonly kind: 'waiting'; readonly reason: string };

/** The largest relative error so far after some steps; `first` is the step that introduces more than `tolerance`. */
export interface ErrorGrowth {
  readonly steps: readonly number[];
  readonly errors: readonly number[];
  readonly tolerance: number;
  readonly first: number;
  readonly text: string;
}

/** Where values come from: the kernel, or what was kept of them. */
export interface ValuesHost {
  /** True while there is a kernel to ask. */
  readonly isLive: boolean;
  /** Buffers and steps whose values are kept. */
  readonly kept: readonly { readonly buffer: number; readonly step: number }[];
  /** Ask; of several questions only the newest is answered. */
  ask(question: ValuesQuestion, answer: (answer: ValuesAnswer) => void): void;
  /** Ask for the indices that move an operand of a step; of several questions of an `asker` only the newest is answered. */
  indices(step: number, view: number, asker: string, answer: (answer: IndicesAnswer) => void): void;
  /** Find the next instruction after a step that writes NaN or an infinity: a step, -1, or a reason. */
  findNonfinite(step: number, answer: (found: number | string) => void): void;
  /** Keep the values of a tile after a step, as `run.pin` does; '' or the reason why that failed. */
  pin(step: number, buffer: number, answer: (reason: string) => void): void;
  /** How the errors of the run grow, or the reason why that is unknown. */
  growth(answer: (found: ErrorGrowth | string) => void): void;
  dispose(): void;
}

/** A range of time. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export type ColourBy = 'engine' | 'op' | 'line' | 'tensor';

/** What a search found. */
export interface Found {
  readonly query: string;
  /** Why it is not understood; '' if it is. */
  readonly problem: string;
  /** Share of the loaded rows that were looked at; only at 1 are there steps. */
  readonly progress: number;
  /** Steps that match, in order. */
  readonly steps: Uint32Array;
}

/** What all views of one visualizer share: one selection drives all. */
export interface State {
  /** Where the cursor stands. */
  readonly time: number;
  /** The current step: the last one that starts at or before `time`, or the selected one. */
  readonly step: number;
  /** Selected instruction; -1: none. */
  readonly selected: number;
  /** Selected buffer; -1: none. */
  readonly tile: number;
  readonly line: { readonly source: number; readonly line: number } | null;
  /** What the timeline shows. */
  readonly window: Span;
  /** Marked range of time. */
  readonly area: Span | null;
  readonly hover: { readonly step: number; readonly tile: number };
  readonly colourBy: ColourBy;
  readonly showCritical: boolean;
  readonly playing: boolean;
  /** Picoseconds of the run per second of play. */
  readonly speed: number;
  /** Memory drawn to the used range rather than to capacity. */
  readonly usedRange: boolean;
  /** Lines that playing stops at: "source:line". */
  readonly breakpoints: ReadonlySet<string>;
  /** The tile at whose writes playing stops; -1: none. */
  readonly stopTile: number;
  /** What is searched for, as the filter says it; '' for nothing. */
  readonly query: string;
  /** What it found; null where nothing is searched. */
  readonly found: Found | null;
  /** Whether the timeline has its search open. */
  readonly searching: boolean;
  readonly tab: 'explore' | 'summary' | 'instructions';
  /** Of the panels below the transport, the one shown where there is no room for all. */
  readonly panel: 'memory' | 'motion' | 'source' | 'values' | 'details';
  /** The panel that takes the whole width below the transport; null: none. */
  readonly expanded: 'memory' | null;
  /** Picoseconds up to which everything is done, of a run that is not over or was cancelled; null: the run ended. */
  readonly doneUntil: number | null;
  /** What is folded in the timeline: "rank 3", "loops 0 1" for the loops of core 0 within one other. */
  readonly folded: ReadonlySet<string>;
  readonly theme: 'light' | 'dark';
  /** Parts that are folded away. */
  readonly away: ReadonlySet<'timeline' | 'moment' | 'panels'>;
  /** Whether it fills the screen. */
  readonly full: boolean;
  /** Whether the window is so low that the timeline leaves its figures out. */
  readonly low: boolean;
  /** Sources that are not any more what ran. */
  readonly edited: ReadonlySet<number>;
  /** Width class of the layout. */
  readonly layout: 'narrow' | 'medium' | 'wide' | 'widest';
}

export type Changes = ReadonlySet<keyof State>;

export interface Store {
  readonly state: State;
  /** Change some of it. Listeners hear of all changes of a frame at once. */
  set(change: Partial<State>): void;
  /** Returns what ends the listening. */
  listen(listener: (state: State, changes: Changes) => void): () => void;
  /** Select an instruction: sets selected, step, time (its start), line, and moves the window so that it is seen. */
  select(step: number): void;
  /** Move the cursor to a time or step without selecting. */
  goTo(time: number): void;
  goToStep(step: number): void;
  /** Ease the window there (140 ms; at once with reduced motion). */
  show(window: Span, ease?: boolean): void;
}

/** What a view gets. */
export interface Context {
  readonly run: Run;
  readonly store: Store;
  readonly palette: () => Palette;
  /** Say something in the live region. */
  readonly speak: (text: string) => void;
  /** Where the values of tiles come from; without it there are none. */
  readonly values?: ValuesHost;
  /** Where charts come from; without it the summary has none. */
  readonly charts?: ChartsHost;
  /** Puts the run into a panel of its own; null where there is no place for one. */
  readonly dock?: (() => void) | null;
}

/** A part of the page. It draws when told what changed; it never polls. */
export interface View {
  readonly element: HTMLElement;
  draw(state: State, changes: Changes): void;
  /** The run got more rows, or another range of them. */
  reload?(run: Run): void;
  dispose(): void;
}

export type ViewFactory = (context: Context) => View;

/** Tokens as resolved colours, for canvases. */
export interface Palette {
  readonly theme: 'light' | 'dark';
  /** Colour of a hue, and of a label on it. */
  readonly hue: Readonly<Record<Hue, string>>;
  readonly onHue: Readonly<Record<Hue, string>>;
  readonly bg: string;
  readonly sunk: string;
  readonly hoverGround: string;
  readonly line: string;
  readonly line2: string;
  readonly ink: string;
  readonly ink2: string;
  readonly ink3: string;
  readonly faint: string;
  readonly error: string;
  readonly errorGround: string;
  readonly warn: string;
  readonly warnGround: string;
  readonly ok: string;
  readonly uiFont: string;
  readonly codeFont: string;
  /** Middle and end of the ramps of values, which begin at the ground: below zero, above it, sizes and errors. */
  readonly values: Readonly<Record<'below' | 'above' | 'size', readonly [string, string]>>;
  /** Eight tints for colouring by op, line or tensor; the rest is `faint`. */
  readonly tints: readonly string[];
}
