// Owns one stream of server-sent events: reads it, notices silence, and opens it again where it ended.
// Knows no event. EventSource is not enough: it hides the node's signs of life and why the node refuses.
import { CODES } from './codes';
import { ApiError, send } from './api';

export interface Event {
  name: string;
  data: string;
}

export interface Handlers {
  /** The stream is open. */
  opened: () => void;
  event: (event: Event) => void;
  /** The stream broke; the next attempt is at this time of `performance.now()`. */
  lost: (why: string, next: number) => void;
}

/** The node says something every 10 s. */
const SILENCE_MAX_MS = 25_000;

const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 10_000;

/** Longer lines than any event has: a broken stream does not fill the memory. */
const LINE_CHARACTERS_MAX = 8 << 20;

/** Follows the stream until the returned function is called. */
export function follow(url: string, handlers: Handlers): () => void {
  const ended = new AbortController();
  void run(url, handlers, ended.signal);
  return () => ended.abort();
}

async function run(url: string, handlers: Handlers, ended: AbortSignal): Promise<void> {
  let last: string | null = null;
  let delay = RETRY_FIRST_MS;
  while (!ended.aborted) {
    let why = 'The connection to the node ended.';
    try {
      const broken = new AbortController();
      const signal = AbortSignal.any([ended, broken.signal]);
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (last !== null) headers['Last-Event-ID'] = last;
      const response = await send(url, { headers, signal, patient: true });
      delay = RETRY_FIRST_MS;
      handlers.opened();
      await read(response, broken, (event, id) => {
        if (id !== null) last = id;
        handlers.event(event);
      });
    } catch (error) {
      if (ended.aborted) return;
      if (error instanceof ApiError) {
        why = error.message;
        // The session has ended: the sign-in page takes over.
        if (error.status === 401) return;
        if (error.code === CODES.badHeader) last = null;
      }
    }
    if (ended.aborted) return;
    handlers.lost(why, performance.now() + delay);
    await sleep(delay, ended);
    delay = Math.min(delay * 2, RETRY_MAX_MS);
  }
}

async function read(
  response: Response,
  broken: AbortController,
  tell: (event: Event, id: string | null) => void,
): Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let name = 'message';
  let id: string | null = null;
  let data: string[] = [];
  for (;;) {
    const silence = setTimeout(() => broken.abort(), SILENCE_MAX_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    rest += value;
    if (rest.length > LINE_CHARACTERS_MAX) {
      broken.abort();
      return;
    }
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) tell({ name, data: data.join('\n') }, id);
        [name, id, data] = ['message', null, []];
        continue;
      }
      const colon = line.indexOf(':');
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') name = text;
      else if (field === 'data') data.push(text);
      else if (field === 'id') id = text;
    }
  }
}

function sleep(milliseconds: number, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    const now = () => {
      clearTimeout(timer);
      resolve();
    };
    ended.addEventListener('abort', now, { once: true });
    // A network that is back is tried at once.
    window.addEventListener('online', now, { once: true });
  });
}
