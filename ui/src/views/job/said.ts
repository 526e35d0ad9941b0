// Owns one sentence for each event of a job's log. An event that it does not know is shown by its name.
import { bytes, count, rate } from '../../lib/format';

type LoggedEvent = Record<string, unknown>;

const text = (value: unknown) => (value === null || value === undefined ? '' : String(value));
const number = (value: unknown) => (typeof value === 'number' ? value : null);

export function said(event: LoggedEvent): string {
  switch (event['event']) {
    case 'started':
      return event['resumed'] ? 'The transfer resumes where it was.' : 'The transfer starts.';
    case 'tuning': {
      const channel = event['channel'] === undefined ? '' : ` on channel ${text(event['channel'])}`;
      return `The tuner changes ${text(event['what'])}${channel} from ${text(event['from'])} to ${text(event['to'])}: ${text(event['reason'])}.`;
    }
    case 'failed':
      return `Failed: ${text(event['path'])}: ${text(event['message'])}`;
    case 'connection_lost':
      return `The connection is lost: ${text(event['message'] ?? event['reason'] ?? event['why'])}`;
    case 'connection_regained':
      return 'The connection is back.';
    case 'note':
      return text(event['message']);
    case 'error':
      return `Error: ${text(event['message'])}`;
    case 'paused':
      return 'The transfer is paused.';
    case 'channels': {
      const channels = (event['channels'] as LoggedEvent[] | undefined) ?? [];
      return channels
        .map((one) => `${text(one['name'])}: ${text(one['streams'])} streams, ${rate(number(one['bytes_per_second']))}`)
        .join('; ');
    }
    case 'item': {
      const size = number(event['bytes']);
      return `${text(event['action'])} ${text(event['kind'])} ${text(event['path'])}${size === null ? '' : `, ${bytes(size)}`}`;
    }
    case 'stats':
      return 'The counters of both ends.';
    case 'summary':
      return `The end: ${text(event['status'])}, ${count(number(event['files']))} files, ${bytes(number(event['bytes']))}.`;
    default:
      return text(event['event']).replaceAll('_', ' ');
  }
}

/** How an event is marked in the log. */
export function kindOf(event: LoggedEvent): 'bad' | 'warn' | 'plain' {
  const name = event['event'];
  if (name === 'error' || name === 'failed') return 'bad';
  return name === 'connection_lost' || name === 'different' || name === 'extra' ? 'warn' : 'plain';
}
