// Dice by a player on a bad line: each round is a throw of five dice, and the board adds them up.
//
//   LAUREL_TOKEN=… node dist/examples/game.js URL BOARD PLAYER ROUNDS DIRECTORY
//
// It prints a line of JSON for each thing that happens. It may be killed at any time and begun again with the same directory:
// scores that were kept are sent then.

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { follow, LaurelClient, LiveTopDocument, NeighborsDocument, ScoreQueue, type Outcome } from 'laurel-client';
import { FileStorage } from 'laurel-client/file';

const [url, board, member, rounds, directory] = process.argv.slice(2);
if (!url || !board || !member || !rounds || !directory) {
  console.error('usage: game.js URL BOARD PLAYER ROUNDS DIRECTORY');
  process.exit(2);
}

const say = (line: object) => console.log(JSON.stringify(line));
const backoff = { firstMs: 100, maxMs: 2000 };

// The function is called before each request: a game with a log-in renews its token there.
const client = new LaurelClient({ url, token: () => process.env.LAUREL_TOKEN, timeoutMs: 5000, backoff });

/** Tells the player about a score. The queue forgets the score after this. */
function told({ score, status, entry, error }: Outcome): void {
  const { eventId } = score;
  switch (status) {
    case 'APPLIED':
    case 'DUPLICATE':
      return say({ counts: eventId, status, rank: entry?.rank });
    case 'QUARANTINED':
      return say({ checked: eventId, code: error?.code });
    default:
      return say({ refused: eventId, status, code: error?.code });
  }
}

const queue = new ScoreQueue({
  client,
  storage: new FileStorage(directory),
  onOutcome: told,
  onProblem: error => say({ waiting: queue.length, because: String(error) }),
  // Small batches get through a line that breaks often.
  batchMax: 5,
  backoff,
});

/** Draws the leaders whenever they change. */
const stop = follow(client, LiveTopDocument, { board, first: 3 }, {
  next: ({ top }) => say({ leaders: top.nodes.map(entry => `${entry.rank}. ${entry.member?.key ?? '?'}: ${entry.formattedScore}`) }),
  state: (line, error) => say({ line, because: error?.message }),
});

/** One throw: the points of five dice. */
function play(): number {
  return Array.from({ length: 5 }, () => randomInt(1, 7)).reduce((sum, die) => sum + die);
}

queue.start();
for (let round = 1; round <= Number(rounds); round++) {
  const points = play();
  // From here on the points are safe, whether the line is up or not.
  const { eventId } = await queue.add({ board, member, score: points });
  say({ round, points, kept: eventId });
  await sleep(20);
}
await queue.empty();

const { board: found } = await client.request(NeighborsDocument, { board, member, above: 1, below: 1 });
for (const entry of found?.standings?.neighbors ?? []) {
  say({ rank: entry.rank, player: entry.member?.key, score: entry.score });
}
stop();
queue.stop();
