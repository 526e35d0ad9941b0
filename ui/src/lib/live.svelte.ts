// Owns the jobs as the node tells them: one stream of events for the page, and whether its figures are of now.
// Draws nothing, and steers nothing.
import { SvelteMap } from 'svelte/reactivity';
import { call, type Job, nodeNow, type Progress, words } from './api';
import { follow } from './stream';
import { isMoving, isOver } from './states';

/** Ended jobs that the page keeps beside those that have not ended. */
const ENDED_KEPT = 200;

/** Figures that are older are not those of now: a running job tells them each second. */
const FRESH_MS = 6_000;

class Live {
  readonly jobs = new SvelteMap<string, Job>();
  state = $state<'connecting' | 'live' | 'lost'>('connecting');
  why = $state('');
  /** When the figures were last those of now, by the node's clock. */
  asOf = $state(0);
  /** The job that is being looked at: it is kept however many have ended since. */
  watched = '';
  /** Jobs were read at least once. */
  loaded = $state(false);

  /** Time of the last event of each job, by `performance.now()`. */
  #reported = new Map<string, number>();
  #close: (() => void) | null = null;
  #queue: (() => void)[] = [];
  #reading = 0;

  start(): void {
    if (this.#close) return;
    this.state = 'connecting';
    this.#close = follow('/api/v1/events', {
      opened: () => void this.#read(),
      event: (event) => this.#take(event.name, event.data),
      lost: (why) => {
        if (this.state === 'live') this.asOf = nodeNow();
        this.state = 'lost';
        this.why = why;
      },
    });
  }

  stop(): void {
    this.#close?.();
    this.#close = null;
    this.jobs.clear();
    this.#reported.clear();
    this.loaded = false;
    this.state = 'connecting';
  }

  get isLive(): boolean {
    return this.state === 'live';
  }

  /** Puts in a job that a call has answered with, which was sent at `asked`. */
  put(job: Job, asked: number): void {
    // An answer may be older than an event that came meanwhile; it is never newer than the events that follow.
    if (this.jobs.has(job.id) && (this.#reported.get(job.id) ?? -Infinity) >= asked) return;
    this.#set(job);
  }

  #set(job: Job): void {
    this.jobs.set(job.id, job);
  }

  /** Forgets a job that the node no longer has. */
  drop(id: string): void {
    this.jobs.delete(id);
    this.#reported.delete(id);
  }

  /** The rate of the job now; None where nothing moves or the figure is old. */
  rate(job: Job, now: number): number | null {
    const progress = job.progress;
    if (!this.isLive || !isMoving(job.state) || !progress) return null;
    if (now - Date.parse(progress.at) > FRESH_MS) return null;
    return progress.bytes_per_second ?? null;
  }

  /** The time left as the node foretells it: eight of ten jobs end within this range of seconds. None where nothing is foretold. */
  left(job: Job, now: number): [number, number] | null {
    const { progress } = job;
    if (!this.rate(job, now) || !progress?.forecast) return null;
    const since = (at: string) => Math.max(0, Date.parse(at) - Date.parse(progress.at)) / 1000;
    return [since(progress.forecast.earliest), since(progress.forecast.latest)];
  }

  async #read(): Promise<void> {
    const reading = ++this.#reading;
    const asked = performance.now();
    try {
      const [open, latest] = await Promise.all([this.#open(), call('get', '/api/v1/jobs', { query: { limit: 100 } })]);
      if (reading !== this.#reading) return;
      const current = new Map([...latest.jobs, ...open].map((job) => [job.id, job]));
      for (const [id, job] of this.jobs) {
        // A job that is no longer among the open ones has ended, or is gone.
        if (!current.has(id) && !isOver(job.state)) this.drop(id);
      }
      for (const job of current.values()) this.put(job, asked);
      this.loaded = true;
      this.state = 'live';
      this.why = '';
    } catch (error) {
      this.state = 'lost';
      this.why = words(error);
      setTimeout(() => {
        if (reading === this.#reading && this.#close) void this.#read();
      }, 2_000);
    }
  }

  /** All jobs that have not ended. */
  async #open(): Promise<Job[]> {
    const jobs: Job[] = [];
    let cursor: string | undefined;
    do {
      const page = await call('get', '/api/v1/jobs', {
        query: { state: 'queued,scheduled,scanning,running,paused,verifying', limit: 1000, cursor },
      });
      jobs.push(...page.jobs);
      cursor = page.next ?? undefined;
    } while (cursor && jobs.length < 10_000);
    return jobs;
  }

  #take(name: string, data: string): void {
    if (name === 'gone') {
      void this.#read();
      return;
    }
    // Events of one second come together: they change the page once.
    if (this.#queue.length === 0) setTimeout(() => this.#apply(), 30);
    if (name === 'job') {
      const job = JSON.parse(data) as Job;
      this.#reported.set(job.id, performance.now());
      this.#queue.push(() => this.#set(job));
    } else if (name === 'progress') {
      const message = JSON.parse(data) as { id: string; progress: Progress };
      this.#queue.push(() => this.#progress(message.id, message.progress));
    }
  }

  #apply(): void {
    const queue = this.#queue;
    this.#queue = [];
    for (const act of queue) act();
    this.#forget();
  }

  #progress(id: string, progress: Progress): void {
    const job = this.jobs.get(id);
    if (!job) return;
    this.jobs.set(id, { ...job, progress });
  }

  /** Forgets the oldest ended jobs, so that a page left open does not grow. */
  #forget(): void {
    if (this.jobs.size <= ENDED_KEPT) return;
    const ended = [...this.jobs.values()].filter((job) => isOver(job.state) && job.id !== this.watched);
    ended.sort((a, b) => (a.ended ?? '').localeCompare(b.ended ?? ''));
    for (const job of ended.slice(0, Math.max(0, ended.length - ENDED_KEPT))) this.drop(job.id);
  }
}

export const live = new Live();
