/** The drawing in words: for screen readers, captions and copies. */
import { MEMORY_LABELS } from '../../_generated/schema';
import * as format from '../../format';
import type { TileView } from '../../types';
import { partitionsOf, type Touched } from './access';
import { bytesOf, isInside } from './layout';
import type { Motion, Operand } from './model';
import { runs } from './pattern';

/** "k[:, 1536:2048]"; a pattern that no index writes is given as dimensions. */
export function named(item: Touched): string {
  if (item.indirect !== 'none') return `${item.buffer.name}${item.index ? `[${item.index.name}]` : '[register]'}`;
  const isWhole = /^\[:(, :)*\]$/.test(item.subscript);
  return `${item.buffer.name}${isWhole ? '' : item.subscript}`;
}

/** "[[4096, 64], [1, 512]] + 1536": steps and sizes in elements, as an access pattern is written. */
export function pattern(view: TileView): string {
  const dims = view.dims.map(([size, step]) => `[${step}, ${size}]`).join(', ');
  return `[${dims}]${view.offset ? ` + ${view.offset}` : ''}`;
}

/** "partitions 0–63", "partition 3"; '' in HBM. */
export function partitions(item: Touched): string {
  const found = partitionsOf(item);
  if (!found) return '';
  return `${found[0] === found[1] ? 'partition' : 'partitions'} ${format.range(found[0], found[1])}`;
}

/** "64 rows of 1 KiB, 8 KiB apart": the contiguous runs of an operand; '' where the dtype is unknown. */
export function runsText(item: Operand): string {
  const size = bytesOf(item.view.dtype);
  if (!(size > 0) || item.elements === 0) return '';
  if (item.indirect === 'vector') {
    const [count] = item.view.dims[0] ?? [1];
    return `${format.plural(count, 'row')} of ${format.bytes((item.elements / count) * size)}`;
  }
  if (item.indirect !== 'none') return format.bytes(item.elements * size);
  const found = runs(item.view.dims, item.view.offset, 2);
  const [first, second] = found.runs;
  const length = format.bytes(first.length * size);
  if (second === undefined) return `${length} in one run`;
  return `${format.count(found.count)} runs of ${length}, ${format.bytes((second.start - first.start) * size)} apart`;
}

/** What moves an operand's address at run time; '' where nothing does. */
export function indirection(item: Operand): string {
  if (item.indirect === 'none') return '';
  if (item.index === null) {
    return item.indirect === 'scalar' ? 'address from a register' : 'rows by an index that is not recorded';
  }
  const what = { scalar: 'offset by', vector: 'rows by', gather: 'elements by' }[item.indirect];
  return [`${what} ${item.index.name}`, item.index.reason, outsideText(item)].filter(text => text !== '').join(', ');
}

/** "2 of 128 outside of the tensor"; '' where no known index is. */
export function outsideText({ index }: Operand): string {
  const picks = index?.picks;
  if (!picks) return '';
  const outside = picks.values.filter(value => !isInside(picks, value)).length;
  return outside > 0 ? `${format.count(outside)} of ${format.count(picks.values.length)} outside of the tensor` : '';
}

/** "not used: partitions 64–127"; '' where all are. */
export function unused(item: Operand, all: number): string {
  const found = partitionsOf(item);
  if (!found || all <= 0) return '';
  const spans: string[] = [];
  if (found[0] > 0) spans.push(format.range(0, found[0] - 1));
  if (found[1] < all - 1) spans.push(format.range(found[1] + 1, all - 1));
  return spans.length ? `partitions ${spans.join(', ')} not used` : '';
}

function operandText(item: Operand): string {
  const said = [named(item), 'of', MEMORY_LABELS[item.buffer.space]];
  const where = item.buffer.space === 'hbm' ? runsText(item) : partitions(item);
  const more = [
    where,
    `${format.shape(item.view.dims.map(([size]) => size))} ${item.view.dtype}`.trim(),
    item.part,
    indirection(item),
    item.repeats > 1 ? `each element ${format.count(item.repeats)} times` : '',
  ].filter(text => text !== '');
  return `${said.join(' ')} (${more.join('; ')})`;
}

/** "dma_copy: k[:, 1536:2048] of HBM (64 runs of 1 KiB, 8 KiB apart; …) to k_t of SBUF (partitions 0–63; …)". */
export function describe(motion: Motion): string {
  const list = (items: readonly Operand[]): string => items.map(operandText).join(', ');
  const said: string[] = [];
  if (motion.inputs.length && motion.outputs.length) {
    said.push(`${motion.name}: ${list(motion.inputs)} to ${list(motion.outputs)}`);
  } else if (motion.inputs.length) said.push(`${motion.name} reads ${list(motion.inputs)}`);
  else if (motion.outputs.length) said.push(`${motion.name} writes ${list(motion.outputs)}`);
  else said.push(`${motion.name}: no operand in memory`);
  said.push(...[transferText(motion), productText(motion), accumulationText(motion)].filter(text => text !== ''));
  return `${said.join('. ')}.`;
}

/** "128 descriptors of 1 KiB, written by hardware, on 8 of 16 engines". */
export function transferText({ transfer, machine }: Motion): string {
  if (!transfer) return '';
  const { descriptors, descriptorBytes, together, mode, engines } = transfer;
  const each = `${format.plural(descriptors, 'descriptor')} of ${format.bytes(descriptorBytes)}`;
  const touching = together > 0 ? ` (${format.plural(together, 'element')} that touch)` : '';
  const by = mode === 'none' ? '' : mode === 'static' ? ', static' : `, written by ${mode}`;
  const all = machine ? `${engines.length} of ${machine.dmaEngines} engines` : format.plural(engines.length, 'engine');
  return `${each}${touching}${by}, on ${all}`;
}

/** "64 of 128 rows and 128 of 128 columns of the array, 512 columns stream through". */
export function productText({ product }: Motion): string {
  if (!product) return '';
  const { rows, columns, usedRows, usedColumns, streamed } = product;
  const used = `${usedRows} of ${rows} rows and ${usedColumns} of ${columns} columns of the array`;
  return streamed > 0 ? `${used}, ${format.count(streamed)} columns stream through` : used;
}

/** "adds up 3 of 8". */
export function accumulationText({ accumulation }: Motion): string {
  if (!accumulation) return '';
  const { place, count, whole } = accumulation;
  return `accumulation ${format.count(place)} of ${whole ? '' : 'at least '}${format.count(count)}`;
}
