// Owns calls of the node's API: paths and documents as docs/openapi.json has them, and errors in the node's words.
// Keeps nothing: `live` and the views do.
import type { components, paths } from './schema';

export type Schemas = components['schemas'];
export type Job = Schemas['JobView'];
export type Progress = Schemas['ProgressView'];
export type Sample = Schemas['SampleView'];
export type Attempt = Schemas['AttemptView'];
export type FailureGroup = Schemas['FailureGroup'];
export type LogLine = Schemas['LogLine'];
export type MissingNode = Schemas['MissingNode'];
export type Merge = Schemas['Merge'];
export type NewJob = Schemas['NewJob'];
export type NodeInfo = Schemas['NodeView'];
export type Role = Schemas['RoleName'];
export type JobState = Schemas['JobState'];
export type Bottleneck = Schemas['Bottleneck'];

type Method = 'get' | 'put' | 'post' | 'patch' | 'delete';
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type Json<T> = T extends { content: { 'application/json': infer J } } ? J : undefined;
type Answer<O> = O extends { responses: infer R }
  ? R extends { 200: infer T }
    ? Json<T>
    : R extends { 201: infer T }
      ? Json<T>
      : undefined
  : never;
type Content<O> = O extends { requestBody?: infer B } ? Json<NonNullable<B>> : undefined;

/** Paths that take the method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends undefined | never ? never : P;
}[keyof paths];

export interface Options<B> {
  /** Values of the names in braces. */
  path?: Record<string, string>;
  query?: Record<string, string | number | undefined>;
  body?: B;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Why a call failed, in words for people. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** The code of the problem; `unreachable` when no answer came. */
    readonly code: string,
    readonly status: number,
    readonly request?: string,
    /** The advice of the node's catalogue of failures. */
    readonly advice?: string,
  ) {
    super(message);
  }
}

/** The header that each change needs: a page of another site cannot send it. */
const PAGE_HEADER = 'X-Godwit-Page';

/** An answer later than this counts as none. */
const ANSWER_WITHIN_MS = 30_000;

let onSignedOut: () => void = () => {};

/** Says what to do when the node no longer knows the session. */
export function whenSignedOut(act: () => void): void {
  onSignedOut = act;
}

/** How far the node's clock is ahead of this one, in milliseconds. */
let ahead = 0;

/** The node's time now. */
export function nodeNow(): number {
  return Date.now() + ahead;
}

export function address(path: string, options: Pick<Options<unknown>, 'path' | 'query'> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(options.path?.[name] ?? ''),
  );
  // No form encoding: a plus sign in a name stays one.
  const text = Object.entries(options.query ?? {})
    .filter(([, value]) => value !== undefined && value !== '')
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&');
  return text ? `${filled}?${text}` : filled;
}

/** Sends a request and reads its answer. */
export async function call<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  options: Options<Content<Operation<P, M>>> = {},
): Promise<Answer<Operation<P, M>>> {
  const headers: Record<string, string> = { Accept: 'application/json', ...options.headers };
  if (method !== 'get') headers[PAGE_HEADER] = '1';
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  const response = await send(address(path, options), {
    method: method.toUpperCase(),
    headers,
    body: options.body === undefined ? undefined : JSON.stringify(options.body),
    signal: options.signal,
  });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as Answer<Operation<P, M>>;
}

/** Sends a request; an answer that is no success becomes an error. */
export async function send(url: string, init: RequestInit & { patient?: boolean }): Promise<Response> {
  const late = init.patient ? undefined : AbortSignal.timeout(ANSWER_WITHIN_MS);
  const signals = [init.signal, late].filter((signal) => signal instanceof AbortSignal);
  let response: Response;
  try {
    response = await fetch(url, {
      ...init,
      credentials: 'same-origin',
      signal: signals.length > 0 ? AbortSignal.any(signals) : null,
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(
      'The node does not answer. Check that godwit serve runs there and that the network reaches it.',
      'unreachable',
      0,
    );
  }
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isNaN(date)) ahead = Math.abs(date - Date.now()) > 2_000 ? date - Date.now() : 0;
  if (response.ok) return response;
  const error = await problem(response);
  if (error.status === 401 && !url.startsWith('/api/v1/session')) onSignedOut();
  throw error;
}

async function problem(response: Response): Promise<ApiError> {
  try {
    const said = (await response.json()) as Schemas['Problem'];
    return new ApiError(sentence(said.detail), said.code, response.status, said.request ?? undefined, said.advice ?? undefined);
  } catch {
    return new ApiError(`The node answers with status ${response.status}.`, 'unknown', response.status);
  }
}

/** The text as a sentence: a capital letter first, a full stop last. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (!trimmed) return trimmed;
  const end = /[.!?]$/.test(trimmed) ? '' : '.';
  // A name at the beginning, as in `here:/data` and that of a user, keeps its form.
  const first = trimmed.split(/[\s,]/, 1)[0] ?? '';
  const isName = /^\S+ (may not|paused|cancelled|resumed)\b/.test(trimmed);
  const head = /^[a-z]+$/.test(first) && !isName ? trimmed[0]!.toUpperCase() + trimmed.slice(1) : trimmed;
  return head + end;
}

/** The message for an error of any kind. */
export function words(error: unknown): string {
  if (error instanceof Error) return error.message;
  return String(error);
}

/** The shown text of an error: the event, and the advice. */
export interface Trouble {
  text: string;
  advice?: string;
}

export function trouble(error: unknown): Trouble {
  return { text: words(error), ...(error instanceof ApiError && error.advice ? { advice: error.advice } : {}) };
}
