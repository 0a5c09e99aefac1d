// A score on its way, and the end of that way.

import type { Code } from '../errors.js';
import type { ScoreInput, SubmitStatus } from '../schema.js';

/** A score of a board, as it is kept and sent. */
export interface QueuedScore extends ScoreInput {
  board: string;
  score: string;
  eventId: string;
}

/** A score to be queued. */
export interface NewScore extends Omit<ScoreInput, 'score' | 'eventId'> {
  board: string;
  /** An exact decimal. A `number` must be a safe integer. */
  score: string | number | bigint;
  /** The id of a score that was queued before, such as one that was refused and goes to another member; others get one. */
  eventId?: string;
}

/** The end of a score's way. */
export interface Outcome {
  score: QueuedScore;
  /**
   * `APPLIED` and `DUPLICATE`: it counts once. `QUARANTINED`: a moderator decides. `REJECTED`: it was refused, and nothing of it
   * was written. `UNKNOWN`: it may count, and to send it again is no longer safe.
   */
  status: SubmitStatus;
  /** Rank and score in "all" of a score that was applied now. */
  entry?: { rank: number; score: string };
  /** The reason, unless the score counts. */
  error?: { code: Code; message: string; mergedInto?: string };
}

/** The text of an exact decimal. @throws TypeError for a number that may have been rounded. */
export function exact(score: string | number | bigint): string {
  const isExact = typeof score !== 'number' || Number.isSafeInteger(score);
  const text = String(score);
  if (isExact && /^-?\d{1,30}(\.\d{1,9})?$/.test(text)) return text;
  throw new TypeError(`invalid score ${text}: expected a safe integer, a bigint, or a decimal as a string`);
}
