// Owns what a dry run tells of each entry: read from the lines of its log, and sorted by name. Asks nothing.
import type { LogLine } from './api';
import { type Name, shown } from './names';

export interface Would {
  action: string;
  kind: string;
  name: string;
  bytes: number | null;
}

/** Words for the actions of a dry run, in the order of the summary. */
export const DEEDS: Record<string, string> = {
  send: 'copy',
  make: 'make',
  adjust: 'set attributes',
  delete: 'delete',
  skip: 'leave as it is',
};

/** The entries of the last attempt that reported any, by name. */
export function entries(lines: LogLine[]): Would[] {
  const items = lines.filter((line) => line.event['event'] === 'item');
  const last = items.reduce((most, line) => Math.max(most, line.attempt), 0);
  const found = items
    .filter((line) => line.attempt === last)
    .map(({ event }): Would => {
      const path: Name = typeof event['path_b64'] === 'string' ? { base64: event['path_b64'] } : String(event['path'] ?? '');
      return {
        action: String(event['action']),
        kind: String(event['kind']),
        // The source itself has no name below it.
        name: shown(path) || '.',
        bytes: event['kind'] === 'file' && typeof event['bytes'] === 'number' ? event['bytes'] : null,
      };
    });
  return found.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** How many entries each deed has, in the order of the deeds. */
export function counts(found: Would[]): [action: string, count: number][] {
  const sums = new Map<string, number>();
  for (const { action } of found) sums.set(action, (sums.get(action) ?? 0) + 1);
  const order = Object.keys(DEEDS);
  return [...sums].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
}
