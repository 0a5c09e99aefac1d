// One request with scores, and the server's answer for each of them.

import { type LaurelClient } from '../client.js';
import { isTransient, LaurelError, type Code } from '../errors.js';
import { SubmitScoresDocument, type SubmitScoresMutation } from '../generated.js';
import type { Durability } from '../schema.js';
import type { Item } from './kept.js';
import type { Outcome } from './score.js';

type Result = NonNullable<SubmitScoresMutation['submitScores']>['results'][number];

/** The answer for a score: its outcome, or the reason to send it again. */
export type Verdict = { item: Item; outcome: Outcome } | { item: Item; again: LaurelError };

/** Submits scores of one board. @throws LaurelError if the server has not answered for each of them. */
export async function submit(client: LaurelClient, items: Item[], ack: Durability, signal: AbortSignal): Promise<Verdict[]> {
  const board = items[0]!.score.board;
  const scores = items.map(({ score: { board: _, ...score } }) => score);
  const { data, errors } = await client.ask(SubmitScoresDocument, { input: { board, scores, ack } }, signal);
  const results: unknown = data?.submitScores?.results;
  if (!Array.isArray(results)) throw errors[0] ?? new LaurelError('NOT_LAUREL', 'an answer without results');
  const isOfThese = results.length === items.length && items.every(({ score }, index) => results[index]?.member === score.member);
  if (!isOfThese) throw new LaurelError('NOT_LAUREL', 'an answer for other scores');
  return items.map((item, index) => verdict(item, results[index] as Result));
}

function verdict(item: Item, { status, entry, error }: Result): Verdict {
  const { score } = item;
  const reason = error && {
    code: error.code as Code,
    message: error.message,
    ...(error.mergedInto ? { mergedInto: error.mergedInto } : {}),
  };
  const again = () => ({ item, again: new LaurelError(reason?.code ?? 'TIMEOUT', reason?.message ?? `status ${status}`) });
  switch (status) {
    case 'APPLIED':
    case 'DUPLICATE':
      return { item, outcome: { score, status, ...(entry ? { entry } : {}) } };
    case 'QUARANTINED':
      return { item, outcome: { score, status, ...(reason ? { error: reason } : {}) } };
    case 'REJECTED':
      if (!reason || isTransient(reason.code)) return again();
      return { item, outcome: { score, status, error: reason } };
    default:
      // UNKNOWN, or a status of a later version.
      return again();
  }
}
