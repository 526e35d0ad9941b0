// Owns the stages of a transfer as the page draws them: which figures belong to each, and how full the edges between them are.
// Measures nothing: the node's figures do (`stages` of a progress and of a sample).
import type { Bottleneck } from './api';
import { bytes, count, percent, rate } from './format';

export type Figures = Record<string, number>;

export interface Stage {
  name: string;
  side: 'source' | 'network' | 'destination';
  /** Parts of the time; None where nothing tells them. */
  busy: number | null;
  blocked: number | null;
  figures: string[];
  /** The bottlenecks that the stage stands for. */
  blamed: Bottleneck[];
}

export interface Edge {
  /** From 0, empty, to 1, full; None where nothing tells. */
  fullness: number | null;
  text: string;
}

function milliseconds(seconds: number): string {
  const ms = seconds * 1000;
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(0)} ms`;
}

/** The stages from the source's storage to the destination's, in their order. */
export function stages(measured: Figures, scanning: boolean, streams: number): Stage[] {
  const has = (name: string) => (name in measured ? measured[name]! : null);
  const figure = (name: string, form: (value: number) => string) => {
    const value = has(name);
    return value === null ? [] : [form(value)];
  };
  const cpu = (side: string) => {
    const [used, all] = [has(`${side}_processors_busy`), has(`${side}_processors`)];
    return used === null ? [] : [all ? `${used.toFixed(1)} of ${all} processors` : `${used.toFixed(1)} processors`];
  };
  return [
    {
      name: 'Scan',
      side: 'source',
      busy: null,
      blocked: null,
      figures: scanning ? figure('scan_entries_per_second', (n) => `${count(Math.round(n))} entries/s`) : ['finished'],
      blamed: [],
    },
    {
      name: 'Read',
      side: 'source',
      busy: has('read_busy'),
      blocked: null,
      figures: [...figure('read_bytes_per_second', rate)],
      blamed: ['source storage'],
    },
    {
      name: 'Send',
      side: 'source',
      busy: has('send_busy'),
      blocked: has('send_blocked'),
      figures: [
        `${count(streams)} ${streams === 1 ? 'stream' : 'streams'}`,
        ...figure('send_bytes_per_second', rate),
        ...cpu('source'),
        ...figure('send_limited', (n) => (n > 0.01 ? `held by the limit ${percent(n)}` : '')).filter(Boolean),
      ],
      blamed: ['source CPU', 'limit'],
    },
    {
      name: 'Network',
      side: 'network',
      busy: has('network_busy'),
      blocked: has('network_window_limited'),
      figures: [
        ...figure('network_round_trip_seconds', (n) => `RTT ${milliseconds(n)}`),
        ...figure('network_round_trip_least_seconds', (n) => `least ${milliseconds(n)}`),
        ...figure('network_resent', (n) => `${percent(n, 2)} sent again`),
        ...figure('network_in_flight_bytes', (n) => `${bytes(n)} in flight`),
      ],
      blamed: ['network'],
    },
    {
      name: 'Receive',
      side: 'destination',
      busy: has('receive_busy'),
      blocked: has('receive_blocked'),
      figures: [...figure('receive_bytes_per_second', rate), ...cpu('destination')],
      blamed: ['destination CPU'],
    },
    {
      name: 'Write',
      side: 'destination',
      busy: has('write_busy'),
      blocked: null,
      figures: [...figure('write_bytes_per_second', rate)],
      blamed: ['destination storage'],
    },
    {
      name: 'Sync',
      side: 'destination',
      busy: has('sync_busy'),
      blocked: null,
      figures: [...figure('durable_bytes_per_second', (n) => `${rate(n)} durable`)],
      blamed: ['destination storage'],
    },
    {
      name: 'Commit',
      side: 'destination',
      busy: null,
      blocked: null,
      figures: [...figure('commit_files_per_second', (n) => `${count(Math.round(n))} files/s`)],
      blamed: [],
    },
  ];
}

/** The edge between two neighbouring stages. */
export function edge(from: string, measured: Figures): Edge {
  const has = (name: string) => (name in measured ? measured[name]! : null);
  if (from === 'Read') {
    const [starved, full] = [has('send_idle'), has('buffer_full')];
    if (starved === null) return { fullness: null, text: '' };
    return { fullness: Math.max(full ?? 0, 1 - starved), text: `buffer empty ${percent(starved)} of the time` };
  }
  if (from === 'Send') {
    const blocked = has('send_blocked_by_network');
    return { fullness: blocked, text: blocked === null ? '' : `sockets full ${percent(blocked)} of the time` };
  }
  if (from === 'Network') {
    const waiting = has('receive_idle');
    return waiting === null ? { fullness: null, text: '' } : { fullness: 1 - waiting, text: `nothing arrived ${percent(waiting)} of the time` };
  }
  if (from === 'Write') {
    const held = has('receive_blocked');
    return { fullness: held, text: held === null ? '' : `writes held back ${percent(held)} of the time` };
  }
  return { fullness: null, text: '' };
}

/** Fullness as Flink draws it: up to a tenth is free, up to a half is low. */
export function fullnessWord(fullness: number | null): 'unknown' | 'free' | 'low' | 'high' {
  if (fullness === null) return 'unknown';
  return fullness <= 0.1 ? 'free' : fullness <= 0.5 ? 'low' : 'high';
}
