// Owns what the states of a job mean for people: words, kinds, and which actions each allows.
import { type Bottleneck, type Job, type JobState, sentence } from './api';
import { BOTTLENECK_WORDS } from './bottlenecks';
import { CODES } from './codes';
import { bytes, count, moment, relative, span } from './format';

export const STATES: Record<JobState, { word: string; kind: 'moves' | 'waits' | 'good' | 'warn' | 'bad' | 'still' }> = {
  queued: { word: 'Waiting', kind: 'waits' },
  scheduled: { word: 'Scheduled', kind: 'waits' },
  scanning: { word: 'Scanning', kind: 'moves' },
  running: { word: 'Running', kind: 'moves' },
  verifying: { word: 'Verifying', kind: 'moves' },
  paused: { word: 'Paused', kind: 'still' },
  complete: { word: 'Complete', kind: 'good' },
  partial: { word: 'Partial', kind: 'warn' },
  failed: { word: 'Failed', kind: 'bad' },
  cancelled: { word: 'Cancelled', kind: 'still' },
};

export function isMoving(state: JobState): boolean {
  return STATES[state].kind === 'moves';
}

export function isOver(state: JobState): boolean {
  return state === 'complete' || state === 'partial' || state === 'failed' || state === 'cancelled';
}

/** Whether data of an ended job is durable on flash, and not at its export yet. */
export function isBuffered(job: Job): boolean {
  return isOver(job.state) && (job.buffered ?? 0) > 0;
}

export function isWaiting(state: JobState): boolean {
  return STATES[state].kind === 'waits';
}

/** `now` starts the next attempt of a job that waits after a failure. */
export type Action = 'pause' | 'resume' | 'cancel' | 'retry' | 'now';

export function actions(job: Job): Action[] {
  const { state } = job;
  if (state === 'complete') return [];
  if (isOver(state)) return ['retry'];
  if (state === 'paused') return ['resume', 'cancel'];
  return state === 'queued' && job.next_attempt != null ? ['now', 'pause', 'cancel'] : ['pause', 'cancel'];
}

/** The destination, or how many there are and how many of them are complete. */
export function destinations(job: Job): string {
  const { destinations: all } = job;
  if (all?.gather) return `${job.destination}, ${all.complete} of ${all.total} complete`;
  return all ? `${job.destination} and ${all.total - 1} more, ${all.complete} of ${all.total} complete` : job.destination;
}

/** The title of a job: its label, or its places. */
export function title(job: Job): string {
  return job.label || `${job.sources[0] ?? ''} → ${destinations(job)}`;
}

/** The result of a dry run that has ended; null for any other job. */
export function dryRun(job: Job): string | null {
  const summary = job.summary as Record<string, unknown> | null | undefined;
  if (summary?.dry_run !== true) return null;
  const number = (name: string) => (typeof summary[name] === 'number' ? (summary[name] as number) : 0);
  const others = [
    [number('deleted'), 'would be deleted'],
    [number('adjusted'), 'would get other attributes'],
    [number('skipped'), 'stay as they are'],
  ] as const;
  const more = others.filter(([entries]) => entries > 0).map(([entries, what]) => `${count(entries)} ${what}`);
  return [`${count(number('files'))} files with ${bytes(number('bytes'))} would be copied`, ...more].join(', ');
}

/** The amounts that all attempts of the job moved; empty for nothing. A dry run moves nothing. */
export function moved(job: Job): string {
  const { moved } = job;
  if (!moved || dryRun(job) !== null) return '';
  if (moved.bytes === 0 && moved.files === 0) return '';
  const again = moved.bytes_again > 0 ? ` (and ${bytes(moved.bytes_again)} sent again)` : '';
  return `${bytes(moved.bytes)}, ${count(moved.files)} ${moved.files === 1 ? 'file' : 'files'}${again}`;
}

/** A sentence on the failed entries of a job before they are grouped. */
export function failedSoFar(job: Job): string {
  const failed = job.progress?.failed ?? 0;
  if (failed > 0) return `${count(failed)} ${failed === 1 ? 'entry' : 'entries'} failed so far. They are grouped here when the attempt ends.`;
  if (isOver(job.state)) return 'No entry failed.';
  const later = job.progress?.nodes?.length ? ' The nodes try such entries again at the end, and only then count them.' : '';
  return `No entry has failed so far.${later}`;
}

/** One sentence on why the job is where it is, since when, and when it is tried next. */
export function because(job: Job, now: number): string {
  if (isMoving(job.state)) {
    // The node's note on a running job: a lost connection, or the site that runs it.
    const shownReason = reasonText(job.reason);
    return [shownReason, isScanning(job) ? 'The scan goes on: more files may come.' : ''].filter(Boolean).join(' ');
  }
  if (job.state === 'complete') {
    const took = job.ended && job.started ? ` Took ${span(Date.parse(job.ended) - Date.parse(job.started))}.` : '';
    const dry = dryRun(job);
    if (dry) return `A dry run, so nothing is changed: ${dry}.`;
    // Calls of a node that does not answer may come yet, or data came from another destination.
    const says = job.reason?.code === CODES.lateCalls || job.reason?.code === CODES.relayed;
    const late = says ? ` ${reasonText(job.reason)}` : '';
    return `${job.kind === 'verify' ? 'All entries are as the manifest says.' : 'All entries arrived.'}${took}${late}`;
  }
  const parts = [reasonText(job.reason)];
  if (!isOver(job.state)) parts.push(`Since ${relative(job.since, now)}.`);
  if (job.next_attempt && isWaiting(job.state)) {
    const due = Date.parse(job.next_attempt) > now;
    parts.push(due ? `Next attempt ${relative(job.next_attempt, now)}.` : 'The next attempt is due.');
  }
  return parts.filter(Boolean).join(' ');
}

/** The source is still being scanned: totals grow. */
export function isScanning(job: Job): boolean {
  const { progress } = job;
  return isMoving(job.state) && (progress ? (progress.scanning ?? false) || progress.bytes_total == null : job.state === 'scanning');
}

/** Nothing reaches the other end now. */
export function isCutOff(job: Job): boolean {
  return isMoving(job.state) && job.reason?.code === CODES.connectionLost;
}

/** The reason of the job is one of a failure: the job ended so, waits for another attempt, or has no connection now. */
export function isFailure(job: Job): boolean {
  if (job.state === 'partial' || job.state === 'failed' || isCutOff(job)) return true;
  return isWaiting(job.state) && job.next_attempt != null;
}

/** There is something to do about the reason of the job. */
export function advised(job: Job): boolean {
  if (isMoving(job.state)) return isCutOff(job);
  return job.state !== 'complete' || job.reason?.code === CODES.lateCalls;
}

/** Files done, of those that are known so far. */
export function files(job: Job): string {
  const { progress } = job;
  if (!progress) return '';
  const total = progress.files_total ?? 0;
  if (isScanning(job)) return `${count(progress.files)} of at least ${count(Math.max(total, progress.files))} files`;
  return total > 0 ? `${count(progress.files)} of ${count(total)} files` : `${count(progress.files)} files`;
}

/** A time as the node writes it in a sentence. */
const TIME = /(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)?(?: UTC|Z)/g;

/** The reason as a sentence, with times in the reader's zone. */
function reasonText(reason: Job['reason']): string {
  if (!reason) return '';
  return sentence(reason.text.replace(TIME, (_, day: string, clock: string) => moment(`${day}T${clock}Z`)));
}

/** How far the job is, as text. */
export function done(job: Job): string {
  const { progress } = job;
  if (!progress) return '';
  const total = progress.bytes_total;
  return total == null
    ? `${bytes(progress.bytes)}, ${files(job)}`
    : `${bytes(progress.bytes)} of ${bytes(total)}`;
}

export function share(job: Job): number | null {
  if (job.state === 'complete') return 1;
  const total = job.progress?.bytes_total;
  if (!job.progress || total == null) return null;
  return total === 0 ? 1 : Math.min(1, job.progress.bytes / total);
}

/** A stage in words, as the node begins its sentence about it; they follow `limited by`. */
function stageWords(bottleneck: Bottleneck): string {
  return BOTTLENECK_WORDS[bottleneck] ?? bottleneck;
}

/** The node's sentence about the limit, in two: the stage with the nodes that it is at, and the figures with advice. */
export function limitParts(bottleneck: Bottleneck, text: string): [string, string] {
  const words = stageWords(bottleneck);
  if (!text.startsWith(words)) return [words, text];
  const [stage, ...rest] = text.split(': ');
  return [stage ?? words, rest.join(': ')];
}

/** The stage that limits, in words. */
export function limitedBy(bottleneck: Bottleneck | null | undefined): string {
  return bottleneck ? `limited by ${stageWords(bottleneck)}` : '';
}

/** The time left as words: a range, for the recent rates differ. */
export function timeLeft(range: [number, number] | null): string {
  if (!range) return '';
  const [least, most] = range.map((seconds) => span(seconds * 1000)) as [string, string];
  if (least === most) return `about ${least} left`;
  const [unit] = least.split(' ').slice(-1);
  const short = most.endsWith(` ${unit}`) && least.split(' ').length === 2 ? least.split(' ')[0] : least;
  return `${short} to ${most} left`;
}
