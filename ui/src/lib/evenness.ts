// Owns how evenly the nodes of a divided job shared it, by its samples, in the words of the report. Asks nothing.
import type { Schemas } from './api';
import { EVENNESS_OF_INTERFACES, EVENNESS_OF_NODES } from './sentences';

type Sample = Schemas['SampleView'];
type Sums = { ended: number; bytes: number; sent: Map<string, number> };

/** An interface with a smaller share carries no transfer. */
const SHARE_MIN = 0.01;

/** The words of the node with these figures in place of their names in braces. */
function filled(words: string, figures: Record<string, string>): string {
  return words.replace(/\{(\w+)\}/g, (whole, name: string) => figures[name] ?? whole);
}

/** The smallest of several amounts divided by the largest; null for fewer than two. */
function leastByMost(amounts: number[]): number | null {
  const most = Math.max(...amounts);
  return amounts.length > 1 && most > 0 ? Math.min(...amounts) / most : null;
}

function sums(samples: Sample[]): Map<string, Sums> {
  const all = new Map<string, Sums>();
  for (let at = 1; at < samples.length; at++) {
    const [before, sample] = [samples[at - 1]!, samples[at]!];
    const now = Date.parse(sample.at);
    const span = (now - Date.parse(before.at)) / 1000;
    if (sample.attempt !== before.attempt) continue;
    for (const node of sample.nodes ?? []) {
      if (!(node.bytes_per_second > 0)) continue;
      const one = all.get(node.node) ?? { ended: now, bytes: 0, sent: new Map<string, number>() };
      all.set(node.node, one);
      one.ended = now;
      one.bytes += node.bytes_per_second * span;
      for (const [name, rate] of Object.entries(node.host ?? {})) {
        const found = /^interface_(.+)_sent_bytes_per_second$/.exec(name);
        if (found) one.sent.set(found[1]!, (one.sent.get(found[1]!) ?? 0) + rate * span);
      }
    }
  }
  return all;
}

/** The first and the last node that was done, and the evenness of nodes and interfaces; empty for fewer than two nodes. */
export function evenness(samples: Sample[]): string {
  const nodes = [...sums(samples)].sort(([one], [other]) => (one < other ? -1 : 1));
  const even = leastByMost(nodes.map(([, one]) => one.bytes));
  if (even === null) return '';
  const first = nodes.reduce((best, one) => (one[1].ended < best[1].ended ? one : best));
  const last = nodes.reduce((best, one) => (one[1].ended > best[1].ended ? one : best));
  const late = ((last[1].ended - first[1].ended) / 1000).toFixed(1);
  const interfaces = nodes.map(([, { sent }]) => {
    const all = [...sent.values()].reduce((sum, one) => sum + one, 0);
    return leastByMost([...sent.values()].filter((one) => one >= SHARE_MIN * all));
  });
  const least = interfaces.filter((one) => one !== null);
  const percent = (part: number) => String(Math.round(part * 100));
  const said = [filled(EVENNESS_OF_NODES, { first: first[0], last: last[0], late, nodes: percent(even) })];
  if (least.length > 0) said.push(filled(EVENNESS_OF_INTERFACES, { interfaces: percent(Math.min(...least)) }));
  return said.join(' ');
}
