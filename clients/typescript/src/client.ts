// The client: requests over `fetch`, each with a deadline, a bound on its answer, and an id.

import { LaurelError, type Code } from './errors.js';
import { Deadline, pauseMs, randomId, sleep, type Backoff } from './pause.js';

/** The text of an operation, with the types of its answer and its variables. */
export type Document<Data, Variables> = string & { readonly types?: (variables: Variables) => Data };

/** Settings of a client. */
export interface ClientOptions {
  /** The address: "https://scores.example/graphql". */
  url: string;
  /** The access token, or a function that is called before each request, such as one that renews it. */
  token?: string | (() => string | undefined | Promise<string | undefined>);
  /** The longest time for one attempt, in milliseconds: 20,000 by default. */
  timeoutMs?: number;
  /** The most characters of an answer or an event that are read: 4 Mi by default. */
  answerMax?: number;
  /** The most attempts of a query; mutations have one, as only the program knows if they are safe to repeat. */
  attemptsMax?: number;
  /** The pauses between attempts. */
  backoff?: Backoff;
  /** Another `fetch`. */
  fetch?: typeof globalThis.fetch;
}

/** An answer: a field that failed is null in `data`, and has its error in `errors`. */
export interface Answer<Data> {
  data: Data | null;
  errors: LaurelError[];
}

interface WireError {
  message?: unknown;
  extensions?: { code?: unknown; argument?: unknown; mergedInto?: unknown };
}

/** Statuses of answers that a proxy gives without JSON, and their meaning. */
const OF_STATUS: Record<number, Code> = { 413: 'LIMIT_EXCEEDED', 429: 'RATE_LIMITED', 503: 'UNAVAILABLE', 504: 'TIMEOUT' };

/** A connection to Laurel. It holds nothing open, so it needs no end. */
export class LaurelClient {
  readonly options: Required<Omit<ClientOptions, 'token'>> & Pick<ClientOptions, 'token'>;

  constructor(options: ClientOptions) {
    this.options = {
      timeoutMs: 20_000,
      answerMax: 4 << 20,
      attemptsMax: 3,
      backoff: { firstMs: 500, maxMs: 60_000 },
      // A browser's `fetch` wants to be called without another `this`.
      fetch: (input, init) => globalThis.fetch(input, init),
      ...options,
    };
  }

  /**
   * Sends a query or a mutation, and returns its data. A query is sent again after an error that passes by itself.
   * @throws LaurelError if the request or one of its fields failed.
   */
  async request<Data, Variables>(
    document: Document<Data, Variables>,
    variables: Variables,
    signal?: AbortSignal,
  ): Promise<Data> {
    const isQuery = /^\s*(query\b|\{|fragment\b)/.test(document) && !/\bmutation\b/.test(document);
    const attemptsMax = isQuery ? this.options.attemptsMax : 1;
    for (let attempt = 1; ; attempt++) {
      try {
        const { data, errors } = await this.ask(document, variables, signal);
        if (errors[0]) throw errors[0];
        return data!;
      } catch (error) {
        const again = error instanceof LaurelError && error.isTransient && attempt < attemptsMax;
        if (!again || signal?.aborted) throw error;
        await sleep(pauseMs(this.options.backoff, attempt, error.retryAfterMs), signal ?? new AbortController().signal);
      }
    }
  }

  /**
   * Sends one request once, and returns its answer with errors of fields.
   * @throws LaurelError if the request failed as a whole.
   */
  async ask<Data, Variables>(
    document: Document<Data, Variables>,
    variables: Variables,
    signal?: AbortSignal,
  ): Promise<Answer<Data>> {
    const deadline = new Deadline(this.options.timeoutMs, signal);
    const requestId = randomId();
    try {
      const response = await this.post(document, variables, 'application/graphql-response+json', requestId, deadline.signal);
      return this.read<Data>(response, await readText(response, this.options.answerMax), requestId);
    } catch (error) {
      throw asLaurelError(error, requestId, deadline.signal);
    } finally {
      deadline.clear();
    }
  }

  /** Sends a request that asks for an answer of this media type. */
  async post(document: string, variables: unknown, accept: string, requestId: string, signal: AbortSignal): Promise<Response> {
    const { token, url, fetch } = this.options;
    const value = typeof token === 'function' ? await Promise.race([token(), aborted(signal)]) : token;
    const headers: Record<string, string> = { Accept: accept, 'Content-Type': 'application/json', 'X-Request-Id': requestId };
    if (value) headers.Authorization = `Bearer ${value}`;
    const body = JSON.stringify({ query: document, variables });
    // A redirection is not Laurel's, and may lead the token elsewhere.
    return fetch(url, { method: 'POST', headers, body, signal, redirect: 'error', cache: 'no-store', credentials: 'omit' });
  }

  /** Takes an answer for what it is. */
  read<Data>(response: Response, text: string, requestId: string): Answer<Data> {
    const facts = { status: response.status, retryAfterMs: retryAfterMs(response), requestId };
    const answer = parse(text);
    const errors = (answer?.errors ?? []).map(error => errorOf(error, facts));
    if (answer && (errors.length || (response.ok && answer.data))) {
      const data = (answer.data ?? null) as Data | null;
      if (data === null) throw errors[0]!;
      return { data, errors };
    }
    const code = OF_STATUS[response.status] ?? 'NOT_LAUREL';
    throw new LaurelError(code, `status ${response.status} without an answer of Laurel`, facts);
  }
}

/** The JSON of an answer, if it has the shape of one. */
export function parse(text: string): { data?: unknown; errors?: WireError[] } | null {
  try {
    const answer: unknown = JSON.parse(text);
    if (typeof answer !== 'object' || answer === null) return null;
    const { errors } = answer as { errors?: unknown };
    return errors === undefined || Array.isArray(errors) ? answer : null;
  } catch {
    return null;
  }
}

/** An error of an answer. One without a code is not Laurel's. */
export function errorOf(error: WireError, facts: { status?: number; requestId?: string; retryAfterMs?: number | undefined }): LaurelError {
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
  const { code, argument, mergedInto } = error?.extensions ?? {};
  const message = text(error?.message) ?? 'an error without a message';
  const known = (text(code) ?? 'NOT_LAUREL') as Code;
  return new LaurelError(known, message, { ...facts, argument: text(argument), mergedInto: text(mergedInto) });
}

/** Takes the failure of an attempt for one of the network, unless it is known. */
export function asLaurelError(error: unknown, requestId: string, signal: AbortSignal): unknown {
  if (error instanceof LaurelError) return error;
  const cause = signal.aborted ? (signal.reason ?? error) : error;
  return new LaurelError('NETWORK', `no answer: ${cause instanceof Error ? cause.message : String(cause)}`, { requestId, cause });
}

/** The text of an answer. @throws LaurelError if it is longer than `max`. */
export async function readText(response: Response, max: number): Promise<string> {
  let text = '';
  for await (const piece of pieces(response)) {
    text += piece;
    if (text.length > max) throw new LaurelError('NOT_LAUREL', `an answer of more than ${max} characters`, { status: response.status });
  }
  return text;
}

/** The pieces of an answer as they come; the rest is not read if the loop ends early. */
export async function* pieces(response: Response): AsyncGenerator<string> {
  if (!response.body) {
    yield await response.text();
    return;
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    // An answer that has failed cannot be canceled, which is as well.
    reader.cancel().catch(() => {});
  }
}

/** Fails when the signal comes. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const fail = () => reject(signal.reason instanceof Error ? signal.reason : new Error(String(signal.reason)));
    if (signal.aborted) fail();
    else signal.addEventListener('abort', fail, { once: true });
  });
}

function retryAfterMs(response: Response): number | undefined {
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}
