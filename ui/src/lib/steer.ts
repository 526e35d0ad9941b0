// Owns the changes of a job: sends them, puts the answer in place, says what happened. Asks before what cannot be undone.
import { call, type Job, type Schemas, trouble } from './api';
import { dialogs } from './dialogs.svelte';
import { live } from './live.svelte';
import { type Action, title } from './states';

export const WORDS: Record<Action, { label: string; past: string }> = {
  pause: { label: 'Pause', past: 'is paused' },
  resume: { label: 'Resume', past: 'is in the queue again' },
  cancel: { label: 'Cancel…', past: 'is cancelled' },
  retry: { label: 'Retry', past: 'is in the queue again' },
  now: { label: 'Try now', past: 'is tried now' },
};

const PATHS = {
  pause: '/api/v1/jobs/{id}/pause',
  resume: '/api/v1/jobs/{id}/resume',
  retry: '/api/v1/jobs/{id}/retry',
  now: '/api/v1/jobs/{id}/retry',
} as const;

/** Makes the change and puts the answer in place. A refusal is thrown. */
export async function send(action: Action, job: Job): Promise<void> {
  const path = { id: job.id };
  const asked = performance.now();
  const answer =
    action === 'cancel'
      ? await call('post', '/api/v1/jobs/{id}/cancel', { path, body: {} })
      : await call('post', PATHS[action], { path });
  live.put(answer, asked);
}

export async function act(action: Action, job: Job): Promise<void> {
  if (action === 'cancel') {
    const sure = await dialogs.ask({
      title: `Cancel job ${job.id}?`,
      text: `"${title(job)}" stops. Files that have arrived stay at the destination; nothing more is copied. A retry resumes the job later.`,
      action: 'Cancel the job',
      danger: true,
    });
    if (!sure) return;
  }
  try {
    await send(action, job);
    dialogs.say(`Job ${job.id} ${WORDS[action].past}.`);
  } catch (error) {
    dialogs.say(trouble(error), 'bad');
  }
}

/** Changes limit, priority or label. An error is thrown, for the control that was moved must go back. */
export async function change(job: Job, body: Schemas['ChangeJob']): Promise<void> {
  const asked = performance.now();
  live.put(await call('patch', '/api/v1/jobs/{id}', { path: { id: job.id }, body }), asked);
}
