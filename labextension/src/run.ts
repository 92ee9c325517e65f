/** A run as the views read it, made from messages. */

import { NO_HUE, ROLES, WHOLE } from './_generated/schema';
import type {
  Access,
  Buckets,
  Buffer,
  Change,
  Edge,
  Exchange,
  Finding,
  Hue,
  Lane,
  LaneTime,
  LineShare,
  LoopIteration,
  LoopTrack,
  OnChip,
  Op,
  PathTime,
  Peak,
  Rows,
  Run,
  Sentence,
  Site,
  Source,
  Span,
  TileView,
  Treatment,
  Uses,
} from './types';
import { Edges } from './run/edges';
import { exchangesOf } from './run/exchanges';
import { counts } from './run/grow';
import { emptyBuckets, LaneRows, Together } from './run/lanes';
import { LineSteps } from './run/line_steps';
import { loopTrackOf } from './run/loop_track';
import { Memory } from './run/memory';
import { LoadedRows } from './run/rows';
import { upper } from './run/search';
import { Treatments } from './run/treatments';
import { Sites } from './run/sites';
import { BufferUses } from './run/uses';
import { ZoomSums } from './run/zoom';
import { hueOfReason, isForATile, lanesOf, partName } from './run/words';
import { WireError } from './wire';
import type { Message, Numbers } from './wire';

/** The run of a message that tells the whole of it; `add` takes the messages that follow. */
export function createRun(message: Message): LoadedRun {
  return new LoadedRun(message);
}

export class LoadedRun implements Run {
  readonly kernel: string;
  readonly target: string;
  readonly steps: number;
  readonly instructions: number;
  readonly coarse: boolean;
  readonly makespan: number;
  readonly lanes: readonly Lane[];
  readonly cores: readonly number[];
  readonly ranks: number;
  readonly slowest: number;
  readonly loopTrack: LoopTrack | null;
  readonly exchanges: readonly Exchange[];
  readonly stalls: readonly string[];
  readonly sources: readonly Source[];
  readonly summary: Readonly<Record<string, unknown>>;
  readonly findings: readonly Finding[];
  readonly fault: number;
  readonly faultAfter: boolean;
  readonly capacity: Run['capacity'];
  readonly machine: Run['machine'];
  readonly path: PathTime;
  readonly laneTimes: readonly LaneTime[];
  readonly bottlenecks: readonly Sentence[];
  readonly lines: readonly LineShare[];

  private readonly coreNames: Readonly<Record<string, string>>;
  private readonly names: readonly string[];
  private readonly ops: { readonly name: Numbers; readonly detail: Numbers; readonly unit: Numbers | null };
  private readonly iterationTable: Record<'parent' | 'loop' | 'value', Numbers>;
  private readonly treatments: Treatments;
  private readonly memory: Memory;
  private readonly sites: Sites;
  private readonly zoom: ZoomSums | null;
  private readonly loaded = new LoadedRows();
  /** The picoseconds between which nothing is missing. */
  private whole: Span = { from: 0, to: 0 };
  private perLane: LaneRows[] = [];
  private critical = counts();
  private edges: Edges | null = null;
  private bufferUses: BufferUses | null = null;
  private readonly siteLines;
  private readonly transferTimes: Readonly<Record<string, number>> | undefined;
  private readonly transferWaits: Readonly<Record<string, number>> | undefined;
  private transfers = new Map<number, Together>();
  private lineSteps: LineSteps | null = null;

  constructor(message: Message) {
    const { header } = message;
    this.kernel = header.kernel;
    this.target = header.target;
    this.steps = header.steps;
    this.instructions = header.instructions ?? header.steps;
    this.coarse = header.coarse === true;
    this.makespan = header.makespan;
    this.lanes = lanesOf(header);
    this.stalls = header.stalls;
    this.sources = header.sources;
    this.summary = header.summary;
    this.findings = header.findings;
    this.fault = header.fault;
    this.faultAfter = header.fault >= 0 && header.fault_after === true;
    this.capacity = header.capacity;
    this.machine = header.machine ?? null;
    this.path = header.path;
    this.laneTimes = header.lane_times;
    this.transferTimes = header.dma_busy;
    this.transferWaits = header.dma_waiting;
    this.bottlenecks = header.bottlenecks ?? [];
    const whole = Math.max(header.makespan, 1);
    this.lines = header.lines.map(line => ({ ...line, share: line.critical / whole }));
    this.names = header.names;
    this.ops = {
      name: message.column('ops', 'name'),
      detail: message.column('ops', 'detail'),
      // Notebooks keep messages of earlier versions, which have none.
      unit: message.has('ops', 'work_unit') ? message.column('ops', 'work_unit') : null,
    };
    this.treatments = new Treatments(message, header.names);
    this.iterationTable = {
      parent: message.column('iterations', 'parent'),
      loop: message.column('iterations', 'loop'),
      value: message.column('iterations', 'value'),
    };
    this.sites = new Sites(message, header.names, header.sources);
    this.siteLines = this.sites.lines();
    const laneCores = this.lanes.map(lane => lane.core);
    this.memory = new Memory(message, header.names, laneCores);
    this.cores = [...new Set([...laneCores, ...this.memory.cores])].sort((a, b) => a - b);
    this.ranks = 1 + Math.max(0, ...this.lanes.map(lane => lane.rank));
    this.slowest = slowestOf(header.summary, this.ranks);
    this.coreNames = header.core_names ?? {};
    this.loopTrack = loopTrackOf(message);
    this.exchanges = exchangesOf(message);
    this.zoom = message.has('zoom') ? new ZoomSums(message, this.lanes.length, header.zoom_shift ?? 0) : null;
    this.replace(message);
  }

  /** Take the rows of a message: those that follow the loaded ones, or others in their place. */
  add(message: Message): void {
    if (message.first === this.loaded.first + this.loaded.count) this.append(message);
    else this.replace(message);
  }

  private replace(message: Message): void {
    this.whole = { from: message.span.from, to: message.span.from };
    const isBeginning = message.first === 0 && this.steps <= WHOLE;
    this.loaded.clear(message.first, isBeginning && !this.coarse ? this.steps : message.count);
    this.perLane = this.lanes.map(() => new LaneRows());
    this.transfers = new Map(this.cores.map(core => [core, new Together()]));
    this.critical = counts();
    this.append(message);
  }

  private append(message: Message): void {
    const from = this.loaded.count;
    this.loaded.append(message);
    this.whole = { from: this.whole.from, to: message.span.to };
    const rows = this.rows;
    if (rows.first + rows.count > this.steps) throw new WireError('It has more rows than it says.');
    for (let at = from; at < rows.count; at++) {
      const lane = this.perLane[rows.lane[at]];
      if (lane === undefined) throw new WireError('A row is on a lane that is not there.');
      lane.push(rows, at);
      const { kind, core } = this.lanes[rows.lane[at]];
      if (kind === 'dma') this.transfers.get(core)?.push(rows.start[at], rows.duration[at]);
      if (rows.critical[at] === 1) this.critical.push(rows.first + at);
    }
    this.edges = null;
    this.bufferUses = null;
    this.lineSteps = null;
  }

  get rows(): Rows {
    return this.loaded.rows;
  }

  get buffers(): readonly Buffer[] {
    return this.memory.buffers;
  }

  get criticalPath(): Uint32Array {
    return this.critical.view();
  }

  has(step: number): boolean {
    return step >= this.loaded.first && step < this.loaded.first + this.loaded.count;
  }

  covers(from: number, to: number): boolean {
    if (this.loaded.count === this.steps) return true;
    return from < to && Math.max(from, 0) >= this.whole.from && Math.min(to, this.makespan) <= this.whole.to;
  }

  rowsBetween(from: number, to: number): number {
    if (this.zoom === null || this.covers(from, to)) return this.loadedUntil(to) - this.loadedUntil(from);
    return Math.max(0, this.zoom.rowsUntil(to) - this.zoom.rowsUntil(from));
  }

  /** How many loaded rows start at or before a time. */
  private loadedUntil(time: number): number {
    return upper(this.rows.start, this.loaded.count, time);
  }

  /** The place of a loaded step in the columns. */
  private at(step: number): number {
    if (!this.has(step)) throw new RangeError(`step ${step} is not loaded`);
    return step - this.loaded.first;
  }

  op(step: number): Op {
    const op = this.rows.op[this.at(step)];
    const { name, detail, unit } = this.ops;
    return { name: this.names[name[op]], detail: this.names[detail[op]], workUnit: unit ? this.names[unit[op]] : '' };
  }

  change(step: number): Change {
    return this.loaded.change(this.rows.first + this.at(step));
  }

  treatment(step: number): Treatment {
    return this.treatments.of(this.rows.op[this.at(step)]);
  }

  site(id: number): Site | null {
    return this.sites.site(id);
  }

  siteOf(step: number): Site | null {
    return this.site(this.rows.site[this.at(step)]);
  }

  coreName(core: number): string {
    return this.coreNames[String(core)] ?? (this.cores.length > 1 ? `core ${core}` : '');
  }

  iterationsAround(iteration: number): readonly number[] {
    const { parent } = this.iterationTable;
    const out: number[] = [];
    for (let place = iteration; place >= 0; place = parent[place]!) out.push(place);
    return out;
  }

  iterations(step: number): readonly LoopIteration[] {
    return this.iterationsFrom(this.rows.iteration[this.at(step)]);
  }

  private iterationsFrom(innermost: number): LoopIteration[] {
    const { parent, loop, value } = this.iterationTable;
    const out: LoopIteration[] = [];
    for (let place = innermost; place >= 0; place = parent[place]!)
      out.unshift({ loop: this.names[loop[place]], value: value[place] });
    return out;
  }

  accesses(step: number): readonly Access[] {
    const { rows, views, roles } = this.loaded;
    const at = this.at(step);
    const out: Access[] = [];
    for (let place = rows.access[at]; place < rows.access[at + 1]; place++)
      out.push({ view: views[place], role: ROLES[roles[place]] ?? 'read' });
    return out;
  }

  sumsOver(of: (view: number) => number): Float64Array {
    const { rows, views } = this.loaded;
    const known = Float64Array.from(this.memory.bufferOfViews, (_, view) => of(view));
    const sums = new Float64Array(rows.count);
    for (let at = 0; at < rows.count; at++)
      for (let place = rows.access[at]; place < rows.access[at + 1]; place++) sums[at] += known[views[place]];
    return sums;
  }

  uses(buffer: number): Uses {
    this.bufferUses ??= new BufferUses(this.loaded, this.buffers.length, this.memory.bufferOfViews);
    return this.bufferUses.of(buffer);
  }

  view(id: number): TileView {
    return this.memory.view(id);
  }

  label(step: number): string {
    const accesses = this.accesses(step);
    const main = accesses.find(access => access.role !== 'read') ?? accesses[0];
    return main === undefined ? '' : this.partOf(main.view);
  }

  private partOf(id: number): string {
    const view = this.view(id);
    return partName(view, this.buffers[view.buffer]);
  }

  awaited(step: number): string {
    const at = this.at(step);
    const { stall, after } = this.rows;
    const other = after[at];
    if (stall[at] === 0 || !this.has(other) || !isForATile(this.stalls[stall[at]] ?? '')) return '';
    const mine = new Set(this.accesses(step).map(access => this.memory.bufferOf(access.view)));
    const theirs = this.accesses(other);
    const shared = theirs.filter(access => mine.has(this.memory.bufferOf(access.view)));
    const awaited = shared.find(access => access.role !== 'read') ?? shared[0];
    return awaited === undefined ? this.label(other) : this.buffers[this.memory.bufferOf(awaited.view)].name;
  }

  stallHue(step: number, stall: number): Hue {
    const own = hueOfReason(this.stalls[stall] ?? 'none');
    if (own !== null) return own;
    const after = this.rows.after[this.at(step)];
    return this.has(after) ? this.lanes[this.rows.lane[this.at(after)]].hue : NO_HUE;
  }

  predecessors(step: number): readonly Edge[] {
    this.at(step);
    return (this.edges ??= new Edges(this.loaded)).before(step);
  }

  successors(step: number): readonly Edge[] {
    this.at(step);
    return (this.edges ??= new Edges(this.loaded)).after(step);
  }

  laneSteps(lane: number): Uint32Array {
    return this.perLane[lane]?.steps.view() ?? new Uint32Array(0);
  }

  laneAt(lane: number, time: number): number {
    return this.perLane[lane]?.at(time) ?? -1;
  }

  stepAt(time: number): number {
    const { first, count } = this.loaded;
    const place = this.loadedUntil(time);
    const isBefore = place === 0 && first > 0;
    const isAfter = place === count && first + count < this.steps && time >= this.whole.to;
    if (this.zoom === null || !(isBefore || isAfter)) return first + place - 1;
    const about = this.zoom.rowsUntil(time) - 1;
    return isBefore ? Math.min(about, first - 1) : Math.min(Math.max(about, first + count - 1), this.steps - 1);
  }

  buckets(lane: number, from: number, to: number, count: number): Buckets {
    if (this.zoom !== null && !this.covers(from, to)) return this.zoom.buckets(lane, from, to, count);
    return this.perLane[lane]?.buckets(from, to, count) ?? emptyBuckets(from, to, count);
  }

  dmaWaiting(core: number): number | null {
    return this.transferWaits?.[String(core)] ?? null;
  }

  dmaTime(core: number): number {
    const known = this.transferTimes?.[String(core)];
    if (known !== undefined) return known;
    // Messages of 0.1 have one number for all cores.
    const all = (this.summary.engine_busy_ns as Readonly<Record<string, number>> | undefined)?.dma ?? 0;
    const queues = this.lanes.filter(lane => lane.kind === 'dma' && lane.core === core);
    const longest = Math.max(0, ...queues.map(lane => this.laneTimes[lane.id]?.busy ?? 0));
    return Math.min(Math.max(longest, (all * 1000) / Math.max(this.cores.length, 1)), this.makespan);
  }

  dmaBusy(core: number, from: number, to: number): number {
    if (this.zoom === null || this.covers(from, to)) return this.transfers.get(core)?.between(from, to) ?? 0;
    if (from <= 0 && to >= this.makespan) return this.dmaTime(core);
    const queues = this.lanes.filter(lane => lane.kind === 'dma' && lane.core === core);
    const sum = queues.reduce((total, lane) => total + this.buckets(lane.id, from, to, 1).busy[0], 0);
    return Math.min(sum, to - from);
  }

  usage(space: OnChip, core: number, from: number, to: number, count: number): Float64Array {
    return this.memory.usage(space, core, from, to, count);
  }

  peak(space: OnChip, core?: number): Peak | null {
    return this.memory.peak(space, core);
  }

  living(space: OnChip, core: number, from: number, to: number): readonly Buffer[] {
    return this.memory.living(space, core, from, to);
  }

  stepsAtLine(source: number, line: number): Uint32Array {
    const { of, count } = this.siteLines;
    const number = this.siteLines.line(source, line);
    const { rows } = this;
    this.lineSteps ??= new LineSteps(rows.first, rows.count, rows.site, of, count);
    return number < 0 ? new Uint32Array(0) : this.lineSteps.of(number);
  }
}

/** The slowest rank, as the summary names it; -1: none. */
function slowestOf(summary: Readonly<Record<string, unknown>>, ranks: number): number {
  const told = summary.ranks as { readonly slowest?: unknown } | undefined;
  const slowest = told?.slowest;
  return ranks > 1 && typeof slowest === 'number' && slowest >= 0 && slowest < ranks ? slowest : -1;
}
