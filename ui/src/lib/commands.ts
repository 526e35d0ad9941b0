// Owns the command and the API call that do what a form on the page does.
import type { NewJob } from './api';
import { address } from './api';
import { flagsOf } from './choosing';

/** Control characters: a terminal into which they are pasted takes them as keys. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f]/;

function escaped(one: string): string {
  const code = one.charCodeAt(0);
  if (!CONTROLS.test(one)) return `\\${one}`;
  return code < 0x80 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
}

/** The text as one word of a shell, which can be pasted: another user may have chosen it. */
export function quoted(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (CONTROLS.test(text)) return `$'${text.replace(/[\\'\u0000-\u001f\u007f-\u009f]/g, escaped)}'`;
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The fields that are not at their usual values. */
export function lean(job: NewJob): NewJob {
  const kept = Object.entries(job).filter(([name, value]) => {
    if (value === null || value === undefined || value === '') return false;
    if (name === 'priority' && value === 0) return false;
    return !(name === 'settings' && Object.keys(value as object).length === 0);
  });
  return Object.fromEntries(kept) as NewJob;
}

export function asCommand(job: NewJob): string {
  const options = [
    ...(job.kind === 'sync' ? ['--sync'] : []),
    ...(job.kind === 'verify' ? ['--verify'] : []),
    ...(job.manifest ? ['--manifest'] : []),
    ...(job.relay && job.relay !== 'never' ? [`--relay ${job.relay}`] : []),
    ...(job.remove_source_after ? [`--remove-source-after ${job.remove_source_after}`] : []),
    ...(job.label ? [`--label ${quoted(job.label)}`] : []),
    ...(job.priority ? [`--priority ${job.priority}`] : []),
    ...(job.limit ? [`--limit ${quoted(String(job.limit))}`] : []),
    ...(job.not_before ? [`--after ${job.not_before}`] : []),
    ...(job.deadline ? [`--deadline ${job.deadline}`] : []),
    ...(job.retries_max != null ? [`--retries ${job.retries_max}`] : []),
    ...flagsOf(job.selection, quoted),
    ...(job.list ? ['--files-from list'] : []),
    ...Object.entries(job.settings ?? {}).flatMap(([name, values]) => values.map((value) => `--setting ${quoted(`${name}=${value}`)}`)),
  ];
  const more = job.more_destinations ?? [];
  const to = more.length > 0 ? [job.destination, ...more].map((one) => `--to ${quoted(one)}`) : [quoted(job.destination)];
  if (job.gather) {
    const from = job.sources.map((one) => `--from ${quoted(one)}`);
    const merge = job.merge && job.merge !== 'by_site' ? [`--merge ${job.merge}`] : [];
    return ['godwit job submit', ...from, `--to ${quoted(job.destination)}`, ...merge, ...options].join(' ');
  }
  return ['godwit job submit', ...job.sources.map(quoted), ...to, ...options].join(' ');
}

export function asCall(job: NewJob): string {
  const url = `${location.origin}${address('/api/v1/jobs')}`;
  return [
    `curl --fail-with-body --cacert node.pem ${url} \\`,
    `  -H "Authorization: Bearer $(cat token)" \\`,
    `  --json ${quoted(JSON.stringify(lean(job)))}`,
  ].join('\n');
}
