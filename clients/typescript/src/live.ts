// Subscriptions over event streams: one that breaks is begun again, after a pause.

import { asLaurelError, errorOf, parse, pieces, readText, type Document, type LaurelClient } from './client.js';
import { LaurelError } from './errors.js';
import { Deadline, pauseMs, randomId, sleep } from './pause.js';

/** The longest silence of a stream, in milliseconds; the server sends a comment every 20 s. */
const SILENCE_MAX_MS = 60_000;

/** The time that a stream must last for the next pause to be the first again, in milliseconds. */
const STEADY_MS = 10_000;

/** The state of a subscription: `waiting` between two attempts, when `error` says why. */
export type LiveState = 'connecting' | 'live' | 'waiting' | 'ended';

/** The functions that a subscription calls, one at a time. */
export interface Observer<Data> {
  /** Takes an answer. Each is a whole picture of its instant; none is to be added to the one before. */
  next(data: Data, errors: LaurelError[]): void;
  /** Takes the state. With `ended` and an error, the server refuses the subscription for good. */
  state?(state: LiveState, error?: LaurelError): void;
}

/** Settings of a subscription. */
export interface LiveOptions {
  /** The longest silence of a stream, in milliseconds. */
  silenceMaxMs?: number;
}

/** Follows a subscription until the function that is returned is called, or the server refuses it. */
export function follow<Data, Variables>(
  client: LaurelClient,
  document: Document<Data, Variables>,
  variables: Variables,
  observer: Observer<Data>,
  options: LiveOptions = {},
): () => void {
  const controller = new AbortController();
  const isOver = () => controller.signal.aborted;
  const wake = new WakeUp();
  const tell = (state: LiveState, error?: LaurelError) => {
    if (!isOver()) observer.state?.(state, error);
  };
  const run = async () => {
    for (let failures = 0; !isOver(); ) {
      const begun = Date.now();
      let error: LaurelError | undefined;
      let isLive = false;
      tell('connecting');
      try {
        const silenceMaxMs = options.silenceMaxMs ?? SILENCE_MAX_MS;
        for await (const event of events<Data>(client, document, variables, controller.signal, silenceMaxMs)) {
          if (isOver()) return;
          error = event.errors[0];
          if (event.data === null) continue;
          if (!isLive) tell('live');
          isLive = true;
          if (!isOver()) observer.next(event.data, event.errors);
          error = undefined;
        }
        // The server has ended it: for good, unless the last event said that a pause or another token may help.
        if (!error || !mayReturn(error)) return tell('ended', error);
      } catch (thrown) {
        if (!(thrown instanceof LaurelError)) throw thrown;
        error = thrown;
        if (!mayReturn(error)) return tell('ended', error);
      }
      if (isOver()) return;
      failures = Date.now() - begun >= STEADY_MS ? 1 : failures + 1;
      tell('waiting', error);
      if (isOver()) return;
      await wake.sleep(pauseMs(client.options.backoff, failures, error.retryAfterMs), controller.signal);
    }
  };
  // A surprise in the observer is a fault of the program, which the platform reports.
  void run().finally(() => wake.clear());
  return () => controller.abort();
}

/** True if another attempt may succeed, perhaps with another token. */
function mayReturn(error: LaurelError): boolean {
  return error.isTransient || error.isUnauthenticated || error.code === 'INTERNAL';
}

/** A pause that ends early when the device is online again. */
class WakeUp {
  #controller = new AbortController();
  readonly #target = typeof window === 'undefined' ? undefined : window;
  readonly #online = () => this.#controller.abort();

  constructor() {
    this.#target?.addEventListener?.('online', this.#online);
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    this.#controller = new AbortController();
    const stop = () => this.#controller.abort();
    signal.addEventListener('abort', stop);
    if (!signal.aborted) await sleep(ms, this.#controller.signal);
    signal.removeEventListener('abort', stop);
  }

  clear(): void {
    this.#target?.removeEventListener?.('online', this.#online);
  }
}

/** The answers of one stream, until the server ends it. @throws LaurelError if it breaks or does not begin. */
async function* events<Data>(
  client: LaurelClient,
  document: string,
  variables: unknown,
  signal: AbortSignal,
  silenceMaxMs: number,
): AsyncGenerator<{ data: Data | null; errors: LaurelError[] }> {
  const deadline = new Deadline(client.options.timeoutMs, signal);
  const requestId = randomId();
  try {
    const response = await client.post(document, variables, 'text/event-stream', requestId, deadline.signal);
    if (!response.ok || !response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      client.read(response, await readText(response, client.options.answerMax), requestId);
      throw new LaurelError('NOT_LAUREL', 'an answer that is no event stream', { status: response.status, requestId });
    }
    let rest = '';
    deadline.extend(silenceMaxMs);
    for await (const piece of pieces(response)) {
      deadline.extend(silenceMaxMs);
      const blocks = (rest + piece).split(/\r?\n\r?\n/);
      rest = blocks.pop()!;
      if (rest.length > client.options.answerMax) throw new LaurelError('NOT_LAUREL', 'an event without an end', { requestId });
      for (const block of blocks) {
        const { name, data } = eventOf(block);
        if (name === 'complete') return;
        if (name !== 'next') continue;
        const answer = parse(data);
        if (!answer) throw new LaurelError('NOT_LAUREL', 'an event that is no answer', { requestId });
        yield { data: (answer.data ?? null) as Data | null, errors: (answer.errors ?? []).map(error => errorOf(error, { requestId })) };
      }
    }
    throw new LaurelError('NETWORK', 'the stream has ended', { requestId });
  } catch (error) {
    throw asLaurelError(error, requestId, deadline.signal);
  } finally {
    deadline.clear();
  }
}

/** The name and the data of an event; a comment has neither. */
export function eventOf(block: string): { name: string; data: string } {
  let name = '';
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === 'event') name = value!;
    if (field === 'data') data.push(value!);
  }
  return { name, data: data.join('\n') };
}
