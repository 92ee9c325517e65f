/** The ranks of a run as groups of lanes: what a folded one shows, and what is said of each. */
import { HUES, type Hue } from '../../_generated/schema';
import { rgbOf } from '../../canvas/rgb';
import { createStrip } from '../../canvas/strip';
import { time } from '../../format';
import type { Lane, Run } from '../../types';
import { FONTS, type DrawContext, useFont } from './draw_context';
import type { Figure } from './figure';
import type { RankStrip } from './strips';
import type { Scale } from './zoom';

/** Pixels of a bucket of a folded rank. */
const PIXELS = 2;
/** A bucket in which anything runs is never blank. */
const FAINTEST = 0.16;

export interface RankDensity {
  readonly hue: Hue;
  /** Busy share of each bucket of the window, 0 to 1. */
  readonly shares: Float64Array;
}

/** Busy shares of a window by hue: engines of several cores averaged, any DMA queue at work is DMA at work. */
export function rankDensities(run: Run, lanes: readonly Lane[], scale: Scale): readonly RankDensity[] {
  const count = Math.max(1, Math.ceil(scale.width / PIXELS));
  const out: RankDensity[] = [];
  for (const hue of HUES) {
    const mine = lanes.filter(lane => lane.hue === hue && (run.laneTimes[lane.id]?.rows ?? 0) > 0);
    if (mine.length === 0) continue;
    const shares = new Float64Array(count);
    const whole = hue === 'dma' ? 1 : mine.length;
    for (const lane of mine) {
      const { busy, width } = run.buckets(lane.id, scale.from, scale.to, count);
      for (let at = 0; at < count; at++) shares[at] = Math.min(1, shares[at] + busy[at] / width / whole);
    }
    out.push({ hue, shares });
  }
  return out;
}

/** "ends after 35.3 µs · waits 9.1 µs for other ranks"; '' where the summary does not tell. */
export function rankWords(run: Run, rank: number): string {
  const told = run.summary.ranks as Readonly<Record<string, unknown>> | undefined;
  const of = (name: string): number => {
    const list = told?.[name];
    const found: unknown = Array.isArray(list) ? list[rank] : undefined;
    return typeof found === 'number' && Number.isFinite(found) ? found * 1000 : 0;
  };
  const end = of('makespan_ns');
  if (end === 0) return '';
  const parts = [`ends after ${time(end)}`];
  if (of('waits_ns') > 0) parts.push(`waits ${time(of('waits_ns'))} for other ranks`);
  if (of('awaited_ns') > 0) parts.push(`the others wait ${time(of('awaited_ns'))} in all for it`);
  return parts.join(' · ');
}

export function paintRank(drawing: DrawContext, figure: Figure, strip: RankStrip): void {
  const { context, palette } = drawing;
  const { scale, run } = figure;
  const found = figure.ranks.get(strip);
  if (found === undefined) {
    context.fillStyle = palette.sunk;
    context.fillRect(0, strip.top, scale.width, strip.height - 1);
    useFont(drawing, FONTS.wait);
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillStyle = palette.ink2;
    context.fillText(rankWords(run, strip.rank), 8, strip.top + strip.height / 2);
    return;
  }
  if (found.length === 0) return;
  const count = found[0].shares.length;
  const rows = createStrip(count, found.length);
  found.forEach(({ hue, shares }, row) => {
    const colour = rgbOf(palette.hue[hue]);
    shares.forEach((share, at) => {
      if (share > 0) rows.set(at, row, colour, Math.max(FAINTEST, share));
    });
  });
  const pitch = Math.max(2, Math.floor((strip.height - 4) / found.length));
  const top = strip.top + Math.max(1, Math.round((strip.height - pitch * found.length) / 2));
  found.forEach((_, row) => {
    rows.draw(context, row, 1, [0, top + row * pitch, count * PIXELS, Math.max(1, pitch - 1)]);
  });
}
