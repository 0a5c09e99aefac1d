// Questions to the server, and everything that can become of them.

import type { DocumentTypeDecoration } from '@graphql-typed-document-node/core';
import { token } from './token';

/** The longest time that the page waits for an answer, in milliseconds. */
const PATIENCE_MS = 15_000;

/** The cause of a problem, as far as it matters to the reader. */
export type Cause = 'offline' | 'busy' | 'denied' | 'token' | 'missing' | 'season' | 'window' | 'failed';

const CAUSES: Record<string, Cause> = {
  UNAUTHENTICATED: 'denied',
  FORBIDDEN: 'denied',
  EXPIRED_TOKEN: 'token',
  NOT_FOUND: 'missing',
  RATE_LIMITED: 'busy',
  UNAVAILABLE: 'busy',
  TIMEOUT: 'busy',
  SEASON_NOT_OPEN: 'season',
  WINDOW_NOT_FOUND: 'window',
};

/** The reason why something is not there. */
export class Problem extends Error {
  readonly cause: Cause;

  constructor(cause: Cause, message = '') {
    super(message);
    this.cause = cause;
  }

  /** True if it may go by itself. */
  get passes(): boolean {
    return this.cause === 'offline' || this.cause === 'busy';
  }
}

interface ServerError {
  message: string;
  extensions?: { code?: string };
}

export interface Answer<D> {
  data: D;
  problems: Problem[];
}

export function problemOf(error: ServerError): Problem {
  return new Problem(CAUSES[error.extensions?.code ?? ''] ?? 'failed', error.message);
}

/** The milliseconds by which the server's clock is ahead of this one. */
let ahead = 0;

/** The time by the server's clock. */
export function now(): number {
  return Date.now() + ahead;
}

/** An operation, with the types of its answer and of its variables. */
export type Operation<D, V> = DocumentTypeDecoration<D, V> & { toString(): string };

/** Sends a query. Fields that failed are null in its answer, and their problems beside it. */
export async function ask<D, V>(
  document: Operation<D, V>,
  variables: V,
  signal: AbortSignal,
): Promise<Answer<D>> {
  const sent = token.peek();
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (sent) headers['authorization'] = `Bearer ${sent}`;
  let response: Response;
  let answer: { data?: D | null; errors?: ServerError[] };
  try {
    response = await fetch('/graphql', {
      method: 'POST',
      headers,
      body: JSON.stringify({ query: document.toString(), variables }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
    });
    answer = await response.json();
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Problem('offline');
  }
  const date = Date.parse(response.headers.get('date') ?? '');
  // The header has whole seconds.
  if (Math.abs(date + 500 - now()) > 2_000) ahead = date + 500 - Date.now();
  const problems = (answer.errors ?? []).map(problemOf);
  if (response.status === 401 && sent) throw new Problem('token', problems[0]?.message);
  if (!answer.data) throw problems[0] ?? new Problem('failed', `status ${response.status}`);
  return { data: answer.data, problems };
}

/** A part of an answer that must be there; throws the problem if it is not. */
export function needed<T>(part: T | null | undefined, problems: Problem[]): T {
  if (part === null || part === undefined) throw problems[0] ?? new Problem('missing');
  return part;
}
