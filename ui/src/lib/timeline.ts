// Owns the time line of a job's samples: where it has gaps, and the figures of each point. Draws nothing.
import type { Sample } from './api';

export interface Point {
  /** Seconds since 1970. */
  at: number;
  /** None in a gap. */
  sample: Sample | null;
}

/** The samples in order. Where an attempt ended, or nothing was measured for long, there is a gap. */
export function timeline(samples: Sample[]): Point[] {
  const found: Point[] = [];
  const steps = samples.slice(1).map((one, index) => Date.parse(one.at) - Date.parse(samples[index]!.at));
  const usual = steps.sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
  let before: Sample | null = null;
  for (const sample of samples) {
    const at = Date.parse(sample.at);
    const silent = before === null ? 0 : at - Date.parse(before.at);
    if (before !== null && (before.attempt !== sample.attempt || silent > 4 * usual)) {
      found.push({ at: (at - silent / 2) / 1000, sample: null });
    }
    found.push({ at: at / 1000, sample });
    before = sample;
  }
  return found;
}

type Figures = Record<string, number>;

/** The host figures of one sample: of the node that runs the job, or of one of the nodes that bring a divided job. */
export function hostFigures(sample: Sample | null, node: string): Figures | null {
  if (!sample) return null;
  const figures = node === '' ? sample.host : sample.nodes?.find((one) => one.node === node)?.host;
  return (figures as Figures | undefined) ?? null;
}

/** The nodes whose host figures are known, by name. */
export function hostsOf(samples: Sample[]): string[] {
  const names = new Set<string>();
  for (const sample of samples) for (const node of sample.nodes ?? []) if (Object.keys(node.host).length > 0) names.add(node.node);
  return [...names].sort();
}

/** The most cores that a sample has figures of. */
export function coresOf(points: Point[], node: string): number {
  const cores = (figures: Figures) => Object.keys(figures).filter((name) => /^cpu_core_\d+$/.test(name)).length;
  return points.reduce((most, { sample }) => Math.max(most, cores(hostFigures(sample, node) ?? {})), 0);
}
