// A server of the tests in this folder: it answers as Laurel does, over a line that the test breaks.

import { LaurelClient } from '../src/client.js';
import { ScoreQueue, type Outcome, type QueueOptions } from '../src/queue.js';
import { MemoryStorage } from '../src/storage.js';

/** A score as the server sees it. */
export interface Sent {
  member: string;
  score: string;
  eventId: string;
}

/** The body of a request with scores. */
export interface Submission {
  board: string;
  scores: Sent[];
}

/** A treatment of a request: the answer in place of the usual one, or `lose` for none after the scores were counted. */
export type Turn = (submission: Submission) => Response | 'lose' | 'refuse' | undefined | Promise<Response | 'lose' | undefined>;

/** Takes scores, each event id once. */
export class Server {
  /** The turns of the next requests; afterwards all goes well. */
  readonly turns: Turn[] = [];
  /** Called for each request for which no turn is left. */
  usual: Turn = () => undefined;
  /** All requests so far. */
  readonly requests: Submission[] = [];
  /** The scores that count, by event id, in the order in which they came. */
  readonly counted = new Map<string, Sent>();
  /** The codes of scores that the server refuses, by member. */
  readonly refused = new Map<string, string>();
  underWay = 0;
  underWayMax = 0;

  readonly fetch: typeof fetch = async (_url, init) => {
    const { variables } = JSON.parse(init!.body as string) as { variables: { input: Submission } };
    this.requests.push(variables.input);
    this.underWayMax = Math.max(this.underWayMax, ++this.underWay);
    try {
      await new Promise(resolve => setImmediate(resolve));
      init!.signal!.throwIfAborted();
      const turn = await (this.turns.shift() ?? this.usual)(variables.input);
      if (turn === 'refuse') throw new TypeError('fetch failed');
      if (turn instanceof Response) return turn;
      const results = variables.input.scores.map(score => this.#take(score));
      if (turn === 'lose') throw new TypeError('terminated');
      return json({ data: { submitScores: { results } } });
    } finally {
      this.underWay--;
    }
  };

  #take(sent: Sent): object {
    const code = this.refused.get(sent.member);
    const of = { member: sent.member, entry: null, error: null };
    if (code) return { ...of, status: 'REJECTED', error: { code, message: 'no', mergedInto: null } };
    if (this.counted.has(sent.eventId)) return { ...of, status: 'DUPLICATE' };
    this.counted.set(sent.eventId, sent);
    return { ...of, status: 'APPLIED', entry: { rank: 1, score: sent.score } };
  }
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } });
}

/** An answer to a request that failed as a whole. */
export function failure(code: string, status = 200, headers: Record<string, string> = {}): Response {
  return json({ data: null, errors: [{ message: 'no', extensions: { code } }] }, status, headers);
}

/** A queue before a server, with the outcomes that it has handed over. */
export function queueBefore(server: Server, options: Partial<QueueOptions> = {}) {
  const outcomes: Outcome[] = [];
  const client = new LaurelClient({ url: 'https://scores.example/graphql', fetch: server.fetch });
  const queue = new ScoreQueue({
    client,
    storage: new MemoryStorage(),
    onOutcome: outcome => void outcomes.push(outcome),
    backoff: { firstMs: 1, maxMs: 5 },
    ...options,
  });
  return { queue, outcomes, client };
}
