// A program on generated types: it submits a score and reads the answer. Each line below an expected error would be a fault of
// the caller, which the types must find.

import { ask } from './ask.js';
import { SubmitDocument, type SubmitMutationVariables, type SubmitStatus } from './operations.js';

export const variables: SubmitMutationVariables = {
  input: { board: 'arcade', scores: [{ member: 'ada', score: '4200', eventId: 'run-0001' }] },
};

export function advice(status: SubmitStatus): string {
  switch (status) {
    case 'APPLIED':
    case 'DUPLICATE':
      return 'done';
    case 'QUARANTINED':
      return 'a moderator decides';
    case 'REJECTED':
      return 'read the code';
    case 'UNKNOWN':
      return 'send it again';
  }
}

const answer = await ask(SubmitDocument, variables);
for (const { status, entry, error } of answer.submitScores?.results ?? []) {
  const score: string | undefined = entry?.score;
  const rank: number | undefined = entry?.rank;
  console.log(advice(status), rank, score, error?.code);
  // @ts-expect-error: a decimal comes as text.
  const wrong: number | undefined = entry?.score;
  // @ts-expect-error: an entry may be null.
  console.log(entry.rank, wrong);
}

// @ts-expect-error: a mutation that fails is null.
console.log(answer.submitScores.results);
// @ts-expect-error: a field that was not asked for is not there.
console.log(answer.submitScores?.board);
// @ts-expect-error: a score needs a member.
export const lacksMember: SubmitMutationVariables = { input: { board: 'arcade', scores: [{ score: 1 }] } };
// @ts-expect-error: an input has no other fields.
export const hasMore: SubmitMutationVariables = { input: { board: 'arcade', scores: [], window: 'daily' } };
