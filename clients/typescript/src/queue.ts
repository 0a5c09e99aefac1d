// A queue of scores on their way to Laurel: none is lost, and none counts twice.

import type { LaurelClient } from './client.js';
import { LaurelError } from './errors.js';
import { pauseMs, randomId, type Backoff } from './pause.js';
import { KeptScores, type Item } from './queue/kept.js';
import { exact, type NewScore, type Outcome, type QueuedScore } from './queue/score.js';
import { submit, type Verdict } from './queue/submission.js';
import type { Durability } from './schema.js';
import type { ScoreStorage } from './storage.js';

export { QueueFullError } from './queue/kept.js';
export type { NewScore, Outcome, QueuedScore } from './queue/score.js';

/** Settings of a queue. */
export interface QueueOptions {
  client: LaurelClient;
  storage: ScoreStorage;
  /**
   * Takes the outcome of a score. The score is forgotten once this has returned, so after a crash it may come a second time, as
   * DUPLICATE or refused again; if this throws, the score stays. It may add scores, and must not wait for a flush.
   */
  onOutcome(outcome: Outcome): void | Promise<void>;
  /** Takes the reason why scores wait, and faults of the storage. */
  onProblem?(error: unknown): void;
  /** The point at which the server answers: by default DURABLE, once SQL has the score. */
  ack?: Durability;
  /** The most scores that wait: 10,000 by default. */
  lengthMax?: number;
  /** The most characters of all scores that wait: 2 Mi by default, as `localStorage` has room for some 5 MB. */
  charactersMax?: number;
  /** The most scores of a request: 100 by default, and at most 1,000. */
  batchMax?: number;
  /** The most characters of the scores of a request: 64 Ki by default. */
  batchCharactersMax?: number;
  /** The pauses after failures: from 1 s to 5 min by default. */
  backoff?: Backoff;
  /** The time for which the server knows an event id, in milliseconds, less a margin: 23 hours by default. */
  dedupMs?: number;
}

/** The result of a flush: the number of scores that still wait, and the reason if any do. */
export interface Flush {
  left: number;
  error?: LaurelError;
}

/** The most scores of a request that the server takes. */
const BATCH_MAX = 1000;

/** The faults of the server for a score that was sent alone, after which the score is handed back. */
const FAULTS_MAX = 3;

/** A queue of scores, sent in the order in which they were added, by one flush at a time. */
export class ScoreQueue {
  readonly #options: Required<Omit<QueueOptions, 'onProblem'>> & Pick<QueueOptions, 'onProblem'>;
  readonly #kept: KeptScores;
  readonly #listeners = new Set<() => void>();
  readonly #online = () => this.#wake(true);
  #isStarted = false;
  /** True while something waits for the end of a flush in order to go on. */
  #isAwaited = false;
  #batchMax: number;
  #failures = 0;
  #faults = 0;
  #flushing: Promise<Flush> | undefined;
  #controller: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: QueueOptions) {
    this.#options = {
      ack: 'DURABLE',
      lengthMax: 10_000,
      charactersMax: 2 << 20,
      batchMax: 100,
      batchCharactersMax: 64 << 10,
      backoff: { firstMs: 1000, maxMs: 300_000 },
      dedupMs: 23 * 3_600_000,
      ...options,
    };
    this.#batchMax = this.#largestBatch();
    const changed = () => this.#listeners.forEach(listener => listener());
    this.#kept = new KeptScores(this.#options.storage, this.#options, changed, error => this.#options.onProblem?.(error));
  }

  /** The number of scores that wait, as far as this program knows: 0 before the storage was read. */
  get length(): number {
    return this.#kept.length;
  }

  /**
   * Keeps a score until the server has answered for it. It is safe once the promise is fulfilled.
   * @throws QueueFullError if there is no room; TypeError if the score is no exact decimal, or too long.
   */
  async add(score: NewScore): Promise<QueuedScore> {
    const queued = { ...score, score: exact(score.score), eventId: score.eventId ?? randomId() };
    await this.#kept.add(queued);
    this.#wake();
    return queued;
  }

  /** Begins to send scores by itself: now, after each `add`, when the device is online again, and after pauses. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    browser()?.addEventListener('online', this.#online);
    this.#wake();
  }

  /** Ends that. A request under way is given up; its scores wait. */
  stop(): void {
    this.#isStarted = false;
    browser()?.removeEventListener('online', this.#online);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#controller?.abort(new Error('the queue was stopped'));
  }

  /**
   * Sends scores until none waits or the server does not take them now. A second call joins the flush that is under way.
   * @throws the errors of the storage and of `onOutcome`.
   */
  flush(): Promise<Flush> {
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  /** Calls a function after each change of `length`, until the function that is returned is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Waits until no score waits; of use after `start`. */
  async empty(): Promise<void> {
    await this.#kept.load();
    await new Promise<void>(resolve => {
      const look = () => {
        if (this.length > 0) return;
        stop();
        resolve();
      };
      const stop = this.subscribe(look);
      look();
    });
  }

  async #flush(): Promise<Flush> {
    const controller = new AbortController();
    this.#controller = controller;
    try {
      const flush = await takeTurn(this.#options.storage.name, controller.signal, () => this.#sendAll(controller.signal));
      this.#failures = flush.error ? this.#failures + 1 : 0;
      return flush;
    } catch (error) {
      this.#failures++;
      throw error;
    }
  }

  async #sendAll(signal: AbortSignal): Promise<Flush> {
    const { batchCharactersMax, client, ack } = this.#options;
    await this.#kept.load();
    for (;;) {
      const batch = this.#kept.batch(this.#batchMax, batchCharactersMax);
      if (!batch.length) return { left: 0 };
      if (await this.#handBackOld(batch)) continue;
      await this.#kept.markSent(batch, Date.now());
      let error: LaurelError | undefined;
      try {
        error = await this.#conclude(await submit(client, batch, ack, signal));
        this.#faults = 0;
        this.#batchMax = Math.min(this.#largestBatch(), this.#batchMax * 2);
      } catch (thrown) {
        if (!(thrown instanceof LaurelError)) throw thrown;
        error = await this.#refused(batch, thrown);
      }
      if (error) return { left: this.length, error };
    }
  }

  /** Hands back scores whose outcome the server may no longer know, and says if there are any. */
  async #handBackOld(batch: Item[]): Promise<boolean> {
    const before = Date.now() - this.#options.dedupMs;
    const old = batch.filter(({ sentAt }) => sentAt !== undefined && sentAt < before);
    const error = { code: 'TIMEOUT' as const, message: 'no answer came while the server knew the event id' };
    await this.#conclude(old.map(item => ({ item, outcome: { score: item.score, status: 'UNKNOWN', error } })));
    return old.length > 0;
  }

  /** Hands over outcomes, and forgets their scores; the reason why others of them wait. */
  async #conclude(verdicts: Verdict[]): Promise<LaurelError | undefined> {
    const done: Item[] = [];
    let again: LaurelError | undefined;
    try {
      for (const verdict of verdicts) {
        if ('again' in verdict) {
          again ??= verdict.again;
        } else {
          await this.#options.onOutcome(verdict.outcome);
          done.push(verdict.item);
        }
      }
    } finally {
      if (done.length) await this.#kept.remove(done);
    }
    return again;
  }

  /**
   * Acts on a request that failed as a whole; the reason to wait, if there is one. Where it was refused for its content, smaller
   * ones find the score that is to blame, and the others go on.
   */
  async #refused(batch: Item[], error: LaurelError): Promise<LaurelError | undefined> {
    if (error.isTransient || error.isUnauthenticated) {
      // A short request gets through a line that breaks a long one.
      if (error.code === 'NETWORK') this.#batchMax = Math.max(1, Math.floor(batch.length / 2));
      return error;
    }
    const isFault = error.code === 'INTERNAL';
    if (batch.length > 1) {
      this.#batchMax = Math.floor(batch.length / 2);
      return isFault ? error : undefined;
    }
    if (isFault && ++this.#faults < FAULTS_MAX) return error;
    this.#faults = 0;
    const { code, message, mergedInto } = error;
    const reason = { code, message, ...(mergedInto ? { mergedInto } : {}) };
    const status = isFault ? 'UNKNOWN' : 'REJECTED';
    await this.#conclude(batch.map(item => ({ item, outcome: { score: item.score, status, error: reason } })));
    return undefined;
  }

  /** Flushes in the background, unless a pause is to be kept. */
  #wake(isOnline = false): void {
    if (!this.#isStarted || this.#isAwaited || (this.#timer !== undefined && !isOnline)) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isAwaited = true;
    this.flush().then(
      ({ error }) => this.#goOn(error, error?.retryAfterMs),
      (error: unknown) => this.#goOn(error),
    );
  }

  /** Goes on after a flush: at once if scores were added since, and after a pause if there is an error. */
  #goOn(error: unknown, retryAfterMs?: number): void {
    this.#isAwaited = false;
    if (!this.#isStarted) return;
    if (error === undefined) {
      if (this.length > 0) this.#wake();
      return;
    }
    this.#timer = setTimeout(this.#online, pauseMs(this.#options.backoff, this.#failures, retryAfterMs));
    this.#options.onProblem?.(error);
  }

  #largestBatch(): number {
    return Math.max(1, Math.min(BATCH_MAX, this.#options.batchMax));
  }
}

function browser(): Window | undefined {
  // React Native has a `window` without events.
  return typeof window !== 'undefined' && typeof window.addEventListener === 'function' ? window : undefined;
}

/** Runs a function while no other tab of the origin runs one by this name, where the browser has locks. */
async function takeTurn<T>(name: string | undefined, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const locks = name === undefined || typeof navigator === 'undefined' ? undefined : navigator.locks;
  return locks ? await locks.request(`laurel:${name}`, { signal }, work) : work();
}
