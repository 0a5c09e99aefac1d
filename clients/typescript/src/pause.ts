// Pauses between attempts, deadlines, and ids.

/** The bounds of pauses, in milliseconds. */
export interface Backoff {
  /** The first pause, at most; each further one is twice as long. */
  firstMs: number;
  /** The longest pause. */
  maxMs: number;
}

/** The pause after so many failures in a row, from 1: half of it is random, so that clients do not come back all at once. */
export function pauseMs({ firstMs, maxMs }: Backoff, failures: number, retryAfterMs = 0): number {
  const most = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30));
  const random = most * (0.5 + Math.random() / 2);
  // The server's wish is met with jitter on top; one of more than an hour is not believed.
  return retryAfterMs > 0 ? Math.max(random, Math.min(retryAfterMs, 3_600_000) * (1 + Math.random() / 4)) : random;
}

/** Waits so long, or until the signal. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}

/** A signal that comes when nothing has called `extend` for so long, or with the outer one. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #end = () => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ms: number, outer?: AbortSignal) {
    this.#outer = outer;
    if (outer?.aborted) this.#end();
    else outer?.addEventListener('abort', this.#end);
    this.extend(ms);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Begins the time again. */
  extend(ms: number): void {
    clearTimeout(this.#timer);
    const late = () => this.#controller.abort(new Error(`no answer within ${ms} ms`));
    this.#timer = setTimeout(late, ms);
  }

  /** Ends the wait. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener('abort', this.#end);
  }
}

/** A random UUID. `crypto.randomUUID` is missing on pages without TLS. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
}
