/** The rows of one of two runs: those of the timeline, lower, and without what is not compared. */
import type { Lane, Run } from '../../types';
import { MOST_TRACKS, tracksFor } from '../timeline/dma';
import { type DmaStrip, type Layout, SIZES, type Strip } from '../timeline/strips';

const LANE = 19;
const BAR = 13;
const SYNC = 14;
const SYNC_BAR = 8;
const TRACK_PITCH = SIZES.track + 2;

/** The lanes of the other run are shown too: rows of both runs are told apart by their places. */
export function layoutSide(run: Run, both: readonly Run[]): Layout {
  const strips: Strip[] = [];
  let top = 0;
  const add = (strip: Strip): void => {
    strips.push(strip);
    top += strip.height;
  };
  add({ kind: 'axis', top, height: SIZES.axis });
  add({ kind: 'path', top, height: SIZES.path });
  const used = new Set(both.flatMap(one => one.lanes.filter(lane => isUsed(one, lane)).map(lane => lane.hue)));
  for (const core of run.cores) {
    if (run.cores.length > 1) add({ kind: 'core', core, top, height: SIZES.core });
    const lanes = run.lanes.filter(lane => lane.core === core);
    for (const lane of lanes) {
      if (lane.kind !== 'engine' || !(isUsed(run, lane) || (used.has(lane.hue) && isOnly(lanes, lane)))) continue;
      const isSync = lane.hue === 'sync';
      add({ kind: 'lane', lane, top, height: isSync ? SYNC : LANE, bar: isSync ? SYNC_BAR : BAR });
    }
    const queues = lanes.filter(lane => lane.kind === 'dma' && isUsed(run, lane));
    if (queues.length > 0) add(dmaStrip(run, queues, top));
  }
  return { strips, height: top };
}

function isUsed(run: Run, lane: Lane): boolean {
  return (run.laneTimes[lane.id]?.rows ?? 0) > 0;
}

/** A device has several lanes of an engine: of these only used ones are shown. */
function isOnly(lanes: readonly Lane[], lane: Lane): boolean {
  return lanes.every(one => one === lane || one.hue !== lane.hue);
}

function dmaStrip(run: Run, lanes: readonly Lane[], top: number): DmaStrip {
  const count = tracksFor(run, lanes);
  // Where more overlap than there are tracks, the queues show what is on none.
  const isFull = count >= MOST_TRACKS && lanes.length > 1;
  const tracks = Array.from({ length: count }, (_, track) => top + 3 + track * TRACK_PITCH);
  const tracksHeight = count * TRACK_PITCH - 2;
  const both = tracksHeight + 6;
  return {
    kind: 'dma',
    lanes,
    top,
    height: both + (isFull ? lanes.length * SIZES.pitch + 4 : 0),
    tracks,
    tracksHeight,
    queues: top + both,
    pitch: isFull ? SIZES.pitch : 0,
  };
}
