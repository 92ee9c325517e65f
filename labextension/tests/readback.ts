/**
 * Prints what a page reads of messages, as JSON: the tests of nki_lab.wire bundle this, run it with node and compare.
 * Arguments: a file with messages, each behind its length (uint32), and how many buckets.
 */

import { createRun } from '../src/run';
import type { LoadedRun } from '../src/run';
import { pathPieces, WORKS } from '../src/run/path';
import { flowCurve, hbmBytes, makingTime } from '../src/views/timeline/flows';
import { decode } from '../src/wire';

declare const process: { readonly argv: readonly string[]; readonly stdout: { write(text: string): void } };
declare const nodeRead: (path: string) => Uint8Array;

/** The pieces of the critical path as [begin, end, step, reason]; the reason of work is null. */
function pathTimes(run: LoadedRun): unknown {
  const { begin, end, step, reason } = pathPieces(run);
  return Array.from(begin, (from, at) => [
    from,
    end[at],
    step[at],
    reason[at] === WORKS ? null : run.stalls[reason[at]],
  ]);
}

function told(run: LoadedRun, buckets: number): unknown {
  const { rows } = run;
  const curve = flowCurve(run, 'hbm', -1, { from: 0, to: Math.max(run.makespan, 1), width: 1000 });
  const steps = Array.from({ length: rows.count }, (_, i) => rows.first + i);
  return {
    head: [run.kernel, run.target, run.steps, run.makespan, run.stalls, run.findings, run.fault],
    rows: Object.fromEntries(
      Object.entries(rows).map(([name, values]) => [
        name,
        ArrayBuffer.isView(values) ? Array.from(values as Float64Array) : values,
      ]),
    ),
    ops: steps.map(step => run.op(step)),
    iterations: steps.map(step => run.iterations(step).map(iteration => [iteration.loop, iteration.value])),
    accesses: steps.map(step => run.accesses(step).map(access => [access.view, access.role])),
    predecessors: steps.map(step => run.predecessors(step)),
    successors: steps.map(step => run.successors(step)),
    labels: steps.map(step => [run.label(step), run.awaited(step)]),
    views: steps.flatMap(step => run.accesses(step).map(access => run.view(access.view))),
    buffers: run.buffers,
    critical: Array.from(run.criticalPath),
    lanes: run.lanes.map(lane => ({
      lane,
      steps: Array.from(run.laneSteps(lane.id)),
      buckets: Object.fromEntries(
        Object.entries(run.buckets(lane.id, 0, Math.max(run.makespan, 1), buckets)).map(([name, values]) => [
          name,
          ArrayBuffer.isView(values) ? Array.from(values as Float64Array) : (values as number),
        ]),
      ),
    })),
    busy: run.lanes.map(lane => [
      run.laneTimes[lane.id].busy,
      run.buckets(lane.id, 0, Math.max(run.makespan, 1), 1).busy[0],
    ]),
    waiting: run.cores.map(core => run.dmaWaiting(core)),
    transfers: run.cores.map(core => [run.dmaTime(core), run.dmaBusy(core, 0, Math.max(run.makespan, 1))]),
    usage: run.cores.map(core =>
      (['sbuf', 'psum'] as const).map(space =>
        Array.from(run.usage(space, core, 0, Math.max(run.makespan, 1), 1_000_000)),
      ),
    ),
    cores: run.cores,
    peaks: (['sbuf', 'psum'] as const).map(space => run.peak(space)),
    path: pathTimes(run),
    making: steps.flatMap(step => {
      const [start, lead] = [rows.start[step - rows.first], rows.lead[step - rows.first]];
      return lead > 0 ? [[start, lead, run.treatment(step).transfer?.making ?? 0]] : [];
    }),
    flows: {
      making: makingTime(run, 0, 0, run.makespan),
      hbm: hbmBytes(run, 0, run.makespan),
      limit: curve.limit,
    },
    lines: run.lines,
  };
}

const [, , path, buckets] = process.argv;
const bytes = nodeRead(path);
const sizes = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
let run: LoadedRun | null = null;
for (let at = 0; at < bytes.length;) {
  const size = sizes.getUint32(at, true);
  const message = decode(bytes.subarray(at + 4, at + 4 + size));
  if (run === null) run = createRun(message);
  else run.add(message);
  at += 4 + size;
}
if (run !== null) process.stdout.write(JSON.stringify(told(run, Number(buckets))));
