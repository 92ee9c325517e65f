/** Who lies at a byte of a partition at a time, who wrote it and who reads it next. */

import { MEMORY_LABELS } from '../../_generated/schema';
import * as format from '../../format';
import type { Access, Run } from '../../types';
import type { Occupancy, Phase, Tile } from './occupancy';
import { phaseAt } from './occupancy';
import type { Scene } from './scene';
import type { OnChip } from './section';
import { ROLE_READ } from './uses';

/** A byte of a partition at a time. */
export interface Place {
  readonly space: OnChip;
  readonly partition: number;
  readonly byte: number;
  readonly time: number;
}

/** A tile that lies there. Steps are -1 where there is none; `may` where an access's exact elements are not known. */
export interface Finding {
  readonly tile: Tile;
  readonly phase: Phase;
  readonly writer: number;
  readonly writerMay: boolean;
  readonly reader: number;
  readonly readerMay: boolean;
  /** Whether all accesses of the tile are loaded. */
  readonly loaded: boolean;
}

export interface Answer {
  readonly place: Place;
  /** More than one only where tiles overlap. */
  readonly findings: readonly Finding[];
  /** Who lay there before and who comes next; of a free place. */
  readonly before: Tile | undefined;
  readonly next: Tile | undefined;
}

const UNITS: Readonly<Record<string, number>> = { ps: 1, ns: 1e3, us: 1e6, µs: 1e6, μs: 1e6, ms: 1e9, s: 1e12 };
const SCALES: Readonly<Record<string, number>> = { '': 1, b: 1, kib: 1024, kb: 1024, k: 1024, mib: 1024 * 1024 };

/** A place as text: "partition 17, byte 0x3400, 42 µs". What it leaves out is taken from `now`; or what is wrong. */
export function parsePlace(text: string, now: Scene): Place | string {
  const { capacity } = now.run;
  const words = text.toLowerCase().replaceAll(',', ' ').replaceAll('–', '-');
  const bank = /\bbank\s*(\d+)/.exec(words);
  const space: OnChip = bank !== null || /\bpsum\b/.test(words) ? 'psum' : 'sbuf';
  const partition = /\b(?:partition|part|p)\s*(\d+)/.exec(words);
  const size = /(?:\b(?:byte|address|at|b)\s*)(0x[\da-f]+|[\d.]+)\s*(kib|kb|mib|k|b)?\b/.exec(words);
  const bare = size === null ? /\b(0x[\da-f]+)\b/.exec(words) : null;
  const when = /(?:^|[\s@])([\d.]+)\s*(ps|ns|us|µs|μs|ms|s)(?=\s|$)/.exec(words);
  if (partition === null && size === null && bare === null && bank === null) {
    return 'Write a partition and a byte, as in “partition 17, byte 0x3400, 42 µs”.';
  }
  const row = Number(partition?.[1] ?? 0);
  if (row >= capacity.partitions)
    return `There are ${capacity.partitions} partitions, 0 to ${capacity.partitions - 1}.`;
  const offset = Math.floor(Number(size?.[1] ?? bare?.[1] ?? 0) * (SCALES[size?.[2] ?? ''] ?? 1));
  const byte = offset + Number(bank?.[1] ?? 0) * capacity.psumBank;
  if (!Number.isFinite(byte)) return 'The byte is a number, as in “0x3400” or “13312”.';
  if (byte >= capacity[space]) return `${MEMORY_LABELS[space]} has ${format.bytes(capacity[space])} per partition.`;
  const time = when === null ? now.time : Number(when[1]) * (UNITS[when[2]] ?? 1);
  if (!(time <= now.run.makespan)) return `The run ends at ${format.time(now.run.makespan)}.`;
  return { space, partition: row, byte, time };
}

/** "partition 17, byte 0x3400, 42.00 µs". */
export function placeText({ space, partition, byte, time }: Place): string {
  const where = space === 'psum' ? 'PSUM ' : '';
  return `${where}partition ${partition}, byte ${format.address(byte)}, ${format.time(time)}`;
}

export function answerOf(scene: Scene, place: Place): Answer {
  const occupancy = scene[place.space];
  const { time } = place;
  const here = occupancy.at(time).filter(tile => liesAt(tile, place));
  const findings = here.map(tile => findingOf(scene.run, tile, place));
  const [before, next] = here.length > 0 ? [] : around(occupancy, place);
  return { place, findings, before, next };
}

function liesAt(tile: Tile, { partition, byte }: Place): boolean {
  return tile.low <= byte && byte < tile.high && tile.top <= partition && partition < tile.bottom;
}

/** The last tile there before a time, and the first one after it. */
function around(occupancy: Occupancy, place: Place): [Tile | undefined, Tile | undefined] {
  let before: Tile | undefined;
  for (const tile of occupancy.tiles) {
    if (!liesAt(tile, place)) continue;
    if (tile.start > place.time) return [before, tile];
    before = tile;
  }
  return [before, undefined];
}

function findingOf(run: Run, tile: Tile, place: Place): Finding {
  const { id, lifetime } = tile.buffer;
  const { steps, roles } = run.uses(id);
  let [writer, writerMay, reader, readerMay] = [-1, false, -1, false];
  for (let at = 0; at < steps.length; at++) {
    const step = steps[at];
    const row = step - run.rows.first;
    const start = run.rows.start[row];
    if (roles[at] === ROLE_READ) {
      if (reader >= 0 || start + run.rows.duration[row] <= place.time) continue;
      const touched = touches(run, step, true, tile, place);
      if (touched !== 'no') [reader, readerMay] = [step, touched === 'may'];
    } else if (start <= place.time) {
      const touched = touches(run, step, false, tile, place);
      if (touched !== 'no') [writer, writerMay] = [step, touched === 'may'];
    }
  }
  const loaded = lifetime !== null && run.has(lifetime.firstStep) && run.has(lifetime.lastStep);
  return { tile, phase: phaseAt(tile, place.time), writer, writerMay, reader, readerMay, loaded };
}

type Touch = 'yes' | 'no' | 'may';

/** Whether a step's reads, or its writes, touch a byte of a tile. */
function touches(run: Run, step: number, reads: boolean, tile: Tile, place: Place): Touch {
  const mine = run.accesses(step).filter(access => (access.role === 'read') === reads);
  const found = mine.map(access => touch(run, access, tile, place));
  return found.includes('yes') ? 'yes' : found.includes('may') ? 'may' : 'no';
}

function touch(run: Run, access: Access, tile: Tile, { partition, byte }: Place): Touch {
  const view = run.view(access.view);
  const { buffer } = tile;
  if (view.buffer !== buffer.id) return 'no';
  const row = buffer.shape.slice(1).reduce((product, size) => product * size, 1);
  const size = buffer.partitionBytes / row;
  const [first, ...rest] = view.dims;
  // Elements of another size, and places known only at run time, are not told apart.
  if (view.indirect !== 0 || view.dtype !== buffer.dtype || first === undefined || !Number.isInteger(size))
    return 'may';
  const stride = first[0] === 1 ? row : first[1];
  if (stride <= 0 || stride % row !== 0) return 'may';
  const down = partition - tile.top - Math.floor(view.offset / row);
  const line = (down * row) / stride;
  if (!Number.isInteger(line) || line < 0 || line >= first[0]) return 'no';
  const dims = rest.filter(([, step]) => step !== 0).sort((a, b) => b[1] - a[1]);
  if (dims.some(([, step]) => step < 0)) return 'may';
  return reaches(Math.floor((byte - tile.low) / size) - (view.offset % row), dims) ? 'yes' : 'no';
}

/** Whether steps of these dimensions, the largest first, add up to a distance. */
function reaches(distance: number, dims: readonly (readonly [number, number])[]): boolean {
  const [first, ...rest] = dims;
  if (first === undefined) return distance === 0;
  const most = rest.reduce((sum, [size, step]) => sum + (size - 1) * step, 0);
  const low = Math.max(0, Math.ceil((distance - most) / first[1]));
  const high = Math.min(first[0] - 1, Math.floor(distance / first[1]));
  for (let place = low; place <= high; place++) if (reaches(distance - place * first[1], rest)) return true;
  return false;
}
