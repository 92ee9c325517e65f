/** Findings of a run: their order, marks, and the way to their lines. */
import type { Icon } from '../icons';
import { toLine } from '../lines';
import type { Context, Finding, Run } from '../types';

const SEVERITIES = ['error', 'warning', 'information', 'hint'];

/** The worst first, else as they were found. */
export function ranked(run: Run): readonly Finding[] {
  const rank = (finding: Finding): number => (SEVERITIES.indexOf(finding.severity) + SEVERITIES.length + 1) % 5;
  return [...run.findings].sort((one, other) => rank(one) - rank(other));
}

export function severityIcon(severity: string): Icon {
  return severity === 'error' ? 'error' : severity === 'warning' ? 'warning' : 'information';
}

/** Number of the source that a finding is in; -1: none of the run's. */
export function sourceOf(run: Run, finding: Finding): number {
  const exact = run.sources.findIndex(source => source.path === finding.file);
  if (exact >= 0) return exact;
  const name = finding.file.replaceAll('\\', '/');
  return run.sources.findIndex(source => {
    const path = source.path.replaceAll('\\', '/');
    return path.endsWith(`/${name}`) || name.endsWith(`/${path}`);
  });
}

export function hasPlace(run: Run, finding: Finding): boolean {
  return finding.line > 0 && sourceOf(run, finding) >= 0;
}

/** Select the line of a finding, and its first step if it has one. */
export function toFinding({ run, store }: Context, finding: Finding): void {
  const source = sourceOf(run, finding);
  if (source < 0 || finding.line <= 0) return;
  store.set({ tab: 'explore' });
  toLine(run, store, { source, line: finding.line });
}

/** Findings of a source by line. */
export function findingsByLine(run: Run, source: number): ReadonlyMap<number, readonly Finding[]> {
  const out = new Map<number, Finding[]>();
  for (const finding of ranked(run)) {
    if (finding.line <= 0 || sourceOf(run, finding) !== source) continue;
    const found = out.get(finding.line);
    if (found) found.push(finding);
    else out.set(finding.line, [finding]);
  }
  return out;
}
