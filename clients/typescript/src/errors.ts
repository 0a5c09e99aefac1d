// The errors of the client: the server's codes, and two of its own.

import type { ErrorCode } from './schema.js';

/**
 * A code for programs. `NETWORK`: no whole answer came, so the outcome of a mutation is unknown. `NOT_LAUREL`: an answer came,
 * and not from Laurel, such as the log-in page of a hotel's network or the error page of a proxy.
 */
export type Code = ErrorCode | 'NETWORK' | 'NOT_LAUREL';

/** Codes that pass by themselves. */
const TRANSIENT: ReadonlySet<string> = new Set(['UNAVAILABLE', 'TIMEOUT', 'RATE_LIMITED', 'NETWORK', 'NOT_LAUREL']);

/** Codes that pass once the program has another access token. */
const UNAUTHENTICATED: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'EXPIRED_TOKEN']);

/** True if one score with this code may be accepted later. */
export function isTransient(code: string): boolean {
  return TRANSIENT.has(code);
}

/** Facts about an error besides its code and its message. */
export interface ErrorFacts {
  /** The HTTP status of the answer, if one came. */
  status?: number | undefined;
  /** The pause that the server asks for, in milliseconds. */
  retryAfterMs?: number | undefined;
  /** The id of the request, which the server's log has, too. */
  requestId?: string | undefined;
  /** The path of the argument that is wrong. */
  argument?: string | undefined;
  /** The key of the member that another one was merged into. */
  mergedInto?: string | undefined;
  /** The error below this one. */
  cause?: unknown;
}

/** A request, or a field of it, that failed. Branch on `code`: the message is for people. */
export class LaurelError extends Error {
  readonly code: Code;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly requestId: string | undefined;
  readonly argument: string | undefined;
  readonly mergedInto: string | undefined;

  constructor(code: Code, message: string, facts: ErrorFacts = {}) {
    super(message, { cause: facts.cause });
    this.name = 'LaurelError';
    this.code = code;
    this.status = facts.status;
    this.retryAfterMs = facts.retryAfterMs;
    this.requestId = facts.requestId;
    this.argument = facts.argument;
    this.mergedInto = facts.mergedInto;
  }

  /** True if the same request may succeed later. A code that this client does not know is judged by the status. */
  get isTransient(): boolean {
    const isBusy = this.status !== undefined && (this.status === 429 || this.status > 500);
    return isTransient(this.code) || isBusy;
  }

  /** True if the same request may succeed with another access token. */
  get isUnauthenticated(): boolean {
    return UNAUTHENTICATED.has(this.code);
  }
}
