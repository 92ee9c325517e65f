/** The current instruction as a drawing: operands with their slices, the engine, the transfer, the PE array. */
import { MEMORY_OF } from '../../_generated/schema';
import type { Arrangement, Machine } from '../../_generated/schema';
import type { Access, Hue, Run, Transfer } from '../../types';
import * as words from '../../words';
import { bytesIn, NOT_KEPT, touched, type Picks, type Touched } from './access';
import { bytesOf, isInside, viewBytes } from './layout';
import { accumulation, neighbours, type Accumulation, type Neighbours } from './neighbours';
import { elements, repeats } from './pattern';

export type Part = 'stationary' | 'moving' | 'index' | '';

/** The run-time indices that move an operand at a step, or why nobody knows them. */
export type IndexValues = (view: number, step: number) => Picks | string;

export interface Operand extends Neighbours, Touched {
  /** Its name in the instruction's signature; '' where that is not recorded. */
  readonly name: string;
  readonly part: Part;
  readonly role: Access['role'];
  readonly id: number;
  readonly elements: number;
  /** 0 where the dtype is unknown. */
  readonly bytes: number;
  /** How often each element is read. */
  readonly repeats: number;
  readonly hue: Hue;
  /** Where a tile on the chip came from, if a transfer wrote it. */
  readonly origin: Operand | null;
}

/** A transfer at its rates, in bytes a second where they are known, else 0. */
export interface Moved extends Transfer {
  readonly bytes: number;
  readonly duration: number;
  readonly rate: number;
  readonly peak: number;
  /** Elements that lie one after the other in each descriptor. */
  readonly together: number;
  /** Share of the rate of the engines used, and of all, back to back. */
  readonly efficiency: number;
  readonly share: number;
}

export interface Product {
  readonly rows: number;
  readonly columns: number;
  readonly usedRows: number;
  readonly usedColumns: number;
  /** Columns that stream through; 0: a constant does. */
  readonly streamed: number;
}

export interface Motion {
  readonly step: number;
  readonly name: string;
  readonly lane: string;
  readonly hue: Hue;
  readonly arrangement: Arrangement;
  readonly inputs: readonly Operand[];
  readonly outputs: readonly Operand[];
  readonly transfer: Moved | null;
  readonly product: Product | null;
  readonly accumulation: Accumulation | null;
  readonly start: number;
  readonly duration: number;
  readonly machine: Machine | null;
}

/** The drawing of a loaded step. */
export function motionOf(run: Run, step: number, values: IndexValues = () => NOT_KEPT): Motion {
  const { rows } = run;
  const place = step - rows.first;
  const treatment = run.treatment(step);
  const lane = words.laneOf(run, step);
  const isTransfer = treatment.transfer !== null || lane.kind === 'dma';
  const operands = run.accesses(step).map((access, i) => {
    const part: Part = i === treatment.stationary ? 'stationary' : i === treatment.moving ? 'moving' : '';
    return operand(run, step, access, treatment.operands[i] ?? '', part, values, !isTransfer);
  });
  // The tensors of run-time indices are read as well; each once.
  const indices = [...new Set(operands.flatMap(item => (item.index ? [item.index.id] : [])))];
  const inputs = [
    ...operands.filter(item => item.role === 'read'),
    ...indices.map(view => operand(run, step, { view, role: 'read' }, 'index', 'index', values, false)),
  ];
  const outputs = operands.filter(item => item.role !== 'read').map(item => ({ ...item, hue: lane.hue }));
  const adding = outputs.find(item => item.buffer.space === 'psum' && treatment.stationary >= 0);
  return {
    step,
    name: run.op(step).name,
    lane: lane.label,
    hue: lane.hue,
    arrangement: treatment.arrangement,
    inputs: isTransfer ? inputs.map(item => (item.part === 'index' ? item : { ...item, hue: lane.hue })) : inputs,
    outputs,
    transfer: treatment.transfer && moved(run, place, treatment.transfer, operands),
    product: product(run, operands),
    accumulation: adding ? accumulation(run, step, adding.id) : null,
    start: rows.start[place],
    duration: rows.duration[place],
    machine: run.machine,
  };
}

function operand(
  run: Run,
  step: number,
  access: Access,
  name: string,
  part: Part,
  values: IndexValues,
  withOrigin: boolean,
): Operand {
  const found = touched(run, access.view, () => values(access.view, step));
  const { view, buffer } = found;
  const near = neighbours(run, step, view);
  const { lifetime } = buffer;
  const producer = near.writer >= 0 ? words.laneOf(run, near.writer).hue : null;
  const first = lifetime && lifetime.writer >= 0 ? run.lanes[lifetime.writer].hue : null;
  return {
    ...found,
    ...near,
    name,
    part,
    role: access.role,
    id: access.view,
    elements: elements(view.dims),
    bytes: viewBytes(view),
    repeats: repeats(view.dims),
    hue: producer ?? first ?? 'sync',
    origin: withOrigin ? origin(run, near.writer, view.buffer) : null,
  };
}

/** What the transfer that wrote a tile read. */
function origin(run: Run, writer: number, buffer: number): Operand | null {
  if (writer < 0 || !run.has(writer) || words.laneOf(run, writer).kind !== 'dma') return null;
  if (run.buffers[buffer].space === 'hbm') return null;
  const source = run.accesses(writer).find(access => access.role === 'read');
  if (source === undefined || run.buffers[run.view(source.view).buffer].space !== 'hbm') return null;
  const found = operand(run, writer, source, '', '', () => NOT_KEPT, false);
  return { ...found, hue: 'dma' };
}

function moved(run: Run, place: number, transfer: Transfer, operands: readonly Operand[]): Moved {
  const bytes = run.rows.bytes[place];
  const duration = run.rows.duration[place];
  const engineRate = (run.machine?.dmaEngineRate ?? 0) * 1e9;
  const peak = engineRate * (run.machine?.dmaEngines ?? 0);
  const used = engineRate * transfer.engines.length;
  const steady = transfer.cadence > 0 ? (bytes / transfer.cadence) * 1e12 : 0;
  const size = Math.max(0, ...operands.map(item => bytesOf(item.view.dtype)));
  return {
    ...transfer,
    bytes,
    duration,
    rate: duration > 0 ? (bytes / duration) * 1e12 : 0,
    peak,
    together: size > 0 ? transfer.descriptorBytes / size : 0,
    efficiency: used > 0 ? steady / used : 0,
    share: peak > 0 ? steady / peak : 0,
  };
}

function product(run: Run, operands: readonly Operand[]): Product | null {
  const held = operands.find(item => item.part === 'stationary');
  if (held === undefined) return null;
  const streamed = operands.find(item => item.part === 'moving');
  const [rows] = held.view.dims[0] ?? [1];
  return {
    rows: run.machine?.arrayRows ?? run.capacity.partitions,
    columns: run.machine?.arrayColumns ?? run.capacity.partitions,
    usedRows: rows,
    // Packed rows share columns: the result says how many there are.
    usedColumns: Math.min(...operands.filter(item => item.role !== 'read').map(item => item.view.dims[0]?.[0] ?? 1)),
    streamed: streamed ? columnsOf(operands.find(item => item.role !== 'read') ?? streamed) : 0,
  };
}

function columnsOf(item: Operand): number {
  return item.view.dims.slice(1).reduce((size, [length]) => size * length, 1);
}

/** How much of an instruction is done at a time, 0 to 1. */
export function progress(motion: Motion, time: number): number {
  if (motion.duration <= 0) return time >= motion.start ? 1 : 0;
  return Math.min(Math.max((time - motion.start) / motion.duration, 0), 1);
}

/** The PSUM banks that an operand lies in, as [first, last]; null where that is unknown. */
export function banksOf(item: Operand, bankBytes: number): readonly [number, number] | null {
  const found = bytesIn(item);
  if (item.buffer.space !== MEMORY_OF.psum || found === null || !(bankBytes > 0)) return null;
  return [Math.floor(found.first / bankBytes), Math.floor((found.first + found.size - 1) / bankBytes)];
}

export interface Gathered {
  /** Rows drawn: place in the index, value, and whether the tensor has that row. */
  readonly rows: readonly { readonly place: number; readonly row: number; readonly inside: boolean }[];
  readonly count: number;
  readonly distinct: number;
  readonly repeated: number;
  readonly outside: number;
}

/** What indices select; `most` of them are drawn, from place `from` on, or from the first that is outside. */
export function gathered(picks: Picks, from?: number, most = 10): Gathered {
  const { values } = picks;
  const seen = new Map<number, number>();
  let outside = 0;
  let firstOutside = 0;
  values.forEach((row, place) => {
    if (isInside(picks, row)) seen.set(row, (seen.get(row) ?? 0) + 1);
    else {
      if (outside === 0) firstOutside = place;
      outside += 1;
    }
  });
  const wanted = from ?? Math.max(firstOutside - 2, 0);
  const begin = Math.min(Math.max(wanted, 0), Math.max(values.length - most, 0));
  const rows = values.slice(begin, begin + most).map((row, i) => ({
    place: begin + i,
    row,
    inside: isInside(picks, row),
  }));
  const repeated = [...seen.values()].filter(times => times > 1).length;
  return { rows, count: values.length, distinct: seen.size, repeated, outside };
}
