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

/** A host of a job: of a node that brings its data (`node`; '' for a job that is not divided), or at the other end of that node. */
export interface HostOf {
  node: string;
  other: boolean;
  /** The name of the other end; '' where it is hidden, or for a job that is not divided. */
  to: string;
}

/** The host figures of one sample. */
export function hostFigures(sample: Sample | null, host: HostOf): Figures | null {
  if (!sample) return null;
  const is = (one: { node: string; to: string }) => (host.other && host.to !== '' ? one.to === host.to : one.node === host.node);
  const of = host.node === '' ? sample : sample.nodes?.find(is);
  const figures = (host.other ? of?.other_host : of?.host) as Figures | undefined;
  return figures && Object.keys(figures).length > 0 ? figures : null;
}

/** The hosts whose figures are known: those that send by name, then the other ends. */
export function hostsOf(samples: Sample[]): HostOf[] {
  const found = new Map<string, HostOf>();
  const add = (host: HostOf, figures: object | undefined) => {
    const key = JSON.stringify([host.other, host.to || host.node]);
    if (figures && Object.keys(figures).length > 0 && !found.has(key)) found.set(key, host);
  };
  for (const sample of samples) {
    const nodes = sample.nodes ?? [];
    // The node that controls a divided job is one of its nodes.
    if (nodes.length === 0) {
      add({ node: '', other: false, to: '' }, sample.host);
      add({ node: '', other: true, to: '' }, sample.other_host);
    }
    for (const { node, to, host, other_host } of nodes) {
      add({ node, other: false, to: '' }, host);
      add({ node, other: true, to }, other_host);
    }
  }
  const divided = [...found.values()].some((host) => host.node !== '');
  const name = (host: HostOf) => host.to || host.node;
  return [...found.values()]
    .filter((host) => !divided || host.node !== '')
    .sort((one, two) => Number(one.other) - Number(two.other) || name(one).localeCompare(name(two)));
}

/** The most cores that a sample has figures of. */
export function coresOf(points: Point[], host: HostOf): number {
  const cores = (figures: Figures) => Object.keys(figures).filter((name) => /^cpu_core_\d+$/.test(name)).length;
  return points.reduce((most, { sample }) => Math.max(most, cores(hostFigures(sample, host) ?? {})), 0);
}

/** The figures of single interfaces, each with a label. */
export function interfacesOf(points: Point[], host: HostOf): { label: string; name: string }[] {
  const found = new Map<string, string>();
  for (const { sample } of points)
    for (const name of Object.keys(hostFigures(sample, host) ?? {})) {
      const parts = /^interface_(.+)_(received|sent)_bytes_per_second$/.exec(name);
      if (parts) found.set(name, `${parts[1]} ${parts[2]}`);
    }
  return [...found].map(([name, label]) => ({ label, name })).sort((one, two) => one.label.localeCompare(two.label));
}
