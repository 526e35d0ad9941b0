// Owns what nodes of a cluster and the work of divided jobs mean for people. Asks nothing.
import type { Job, Schemas } from './api';
import { count } from './format';

export type ClusterNode = Schemas['ClusterNode'];
export type Work = Schemas['WorkView'];
type Held = Schemas['WorkNodeView'];

export const NODE_STATES: Record<
  Schemas['NodeState'],
  { word: string; sign: string; kind: 'good' | 'waits' | 'still' | 'bad' }
> = {
  up: { word: 'Up', sign: '✓', kind: 'good' },
  draining: { word: 'Draining', sign: '◷', kind: 'waits' },
  drained: { word: 'Drained', sign: '‖', kind: 'still' },
  joining: { word: 'Joining', sign: '◷', kind: 'waits' },
  lost: { word: 'Lost', sign: '✕', kind: 'bad' },
  unknown: { word: 'Not known', sign: '?', kind: 'still' },
};

/** The role of a node in the consensus. */
export function role(node: ClusterNode): string {
  if (node.leads) return 'leads';
  return node.votes ? 'votes' : 'follows';
}

/** The speed of an interface, as people name it. */
export function lineRate(bits: number): string {
  return bits < 1e9 ? `${Math.round(bits / 1e6)} Mbit/s` : `${Number((bits / 1e9).toFixed(1))} Gbit/s`;
}

/** The work of a job that a node holds, in words; empty where it holds nothing. */
export function holding(held: Held): string {
  const kinds: [number, string, string][] = [
    [held.scans, 'scan', 'scans'],
    [held.parts, 'part', 'parts'],
    [held.assembles, 'file to put together', 'files to put together'],
    [held.closes, 'tree to finish', 'trees to finish'],
  ];
  return kinds
    .filter(([number]) => number > 0)
    .map(([number, one, many]) => `${count(number)} ${number === 1 ? one : many}`)
    .join(', ');
}

export interface Deed {
  job: string;
  text: string;
  divided: boolean;
}

/** The part of a node in the running jobs. */
export function deeds(node: ClusterNode, moving: Job[], works: Work[]): Deed[] {
  return moving.flatMap((job): Deed[] => {
    const work = works.find((one) => one.job === job.id);
    const runs = job.node === node.name;
    if (!work) return runs ? [{ job: job.id, text: 'runs it', divided: false }] : [];
    const held = work.nodes.find((one) => one.node === node.name);
    const holds = held ? holding(held) : '';
    // A node that is lost waits for nothing: what it held is given to others.
    const waits = held && node.state === 'up' ? 'waits for work' : '';
    const parts = [runs ? 'controls it' : '', holds ? `holds ${holds}` : waits].filter(Boolean);
    return parts.length > 0 ? [{ job: job.id, text: parts.join(', '), divided: true }] : [];
  });
}
