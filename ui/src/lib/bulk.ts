// Owns the changes of several jobs: sends them one after another. A refusal of one names the job and does not stop the others.
import { type Job, type Trouble, trouble } from './api';
import { dialogs } from './dialogs.svelte';
import { type Action, actions, title } from './states';
import { send, WORDS } from './steer';

/** The buttons, in their order. A job that waits for its next attempt is tried now by the same one that starts an ended job again. */
export const BULK = ['pause', 'resume', 'cancel', 'retry'] as const;
export type BulkAction = (typeof BULK)[number];

/** The action of the button on this job now; null if there is none. */
export function deedOf(action: BulkAction, job: Job): Action | null {
  const allowed = actions(job);
  if (allowed.includes(action)) return action;
  return action === 'retry' && allowed.includes('now') ? 'now' : null;
}

export interface Refusal extends Trouble {
  job: string;
}

const LISTED = 10;

/** Makes the change to all that take it, after a question for a cancellation. Gives the refusals; null if nothing was sent. */
export async function actOnAll(action: BulkAction, jobs: Job[]): Promise<Refusal[] | null> {
  const taken = jobs.flatMap((job) => {
    const deed = deedOf(action, job);
    return deed ? [{ job, deed }] : [];
  });
  const all = taken.length === 1 ? '1 job' : `${taken.length} jobs`;
  if (action === 'cancel') {
    const names = taken.slice(0, LISTED).map(({ job }) => `"${title(job)}"`);
    const rest = taken.length > LISTED ? ` and ${taken.length - LISTED} more` : '';
    const sure = await dialogs.ask({
      title: `Cancel ${all}?`,
      text: `${names.join(', ')}${rest} ${taken.length === 1 ? 'stops' : 'stop'}. Files that have arrived stay at the destination; nothing more is copied. A retry resumes a job later.`,
      action: `Cancel ${all}`,
      danger: true,
    });
    if (!sure) return null;
  }
  const refusals: Refusal[] = [];
  for (const { job, deed } of taken) {
    try {
      await send(deed, job);
    } catch (error) {
      refusals.push({ job: job.id, ...trouble(error) });
    }
  }
  const made = taken.length - refusals.length;
  if (made > 0) {
    const deeds = new Set(taken.map(({ deed }) => deed));
    const past = WORDS[deeds.size === 1 ? taken[0]!.deed : action].past;
    dialogs.say(made === 1 ? `1 job ${past}.` : `${made} jobs ${past.replace(/^is /, 'are ')}.`);
  }
  return refusals;
}
