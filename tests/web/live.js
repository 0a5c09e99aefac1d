// Subscribes by npm's graphql-ws and graphql-sse: live.js both|killed <address> <other address> <token> <process id>.
// Prints one line of JSON: what came.

import { createClient as createSse } from 'graphql-sse';
import { createClient as createWs } from 'graphql-ws';
import WebSocket from 'ws';

const [part, address, other, token, pid] = process.argv.slice(2);

const query = 'subscription { top(board: "b", first: 1) { nodes { score } } }';

const socketsAt = (addresses, options) => {
  let attempt = 0;
  return createWs({
    url: () => `${addresses[attempt++ % addresses.length].replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    lazy: false,
    onNonLazyError: () => {},
    ...options,
  });
};

async function submit(at, score) {
  const answer = await fetch(`${at}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({
      query: `mutation { submitScores(input: { board: "b", scores: [{ member: "ann", score: ${score} }] }) { accepted } }`,
    }),
  });
  const { data } = await answer.json();
  if (data.submitScores.accepted !== 1) throw new Error('the score was not accepted');
}

// The scores that a subscription brings; `upTo` waits until so many are there.
function followed(client) {
  const scores = [];
  const waiting = [];
  const settle = () => {
    while (waiting.length && scores.length >= waiting[0].count) waiting.shift().resolve();
  };
  client.subscribe(
    { query },
    {
      next: ({ data }) => {
        scores.push(data.top.nodes[0].score);
        settle();
      },
      error: error => {
        throw error;
      },
      complete: () => {},
    },
  );
  const upTo = count => new Promise(resolve => {
    waiting.push({ count, resolve });
    settle();
  });
  return { scores, upTo };
}

// The outcome of one operation: its answer, or the error.
const outcome = (client, text) =>
  new Promise(resolve => {
    let last;
    client.subscribe(
      { query: text },
      { next: answer => (last = answer), error: resolve, complete: () => resolve(last) },
    );
  });

async function both() {
  const ws = socketsAt([address]);
  const sse = createSse({ url: `${address}/graphql` });
  const [byWs, bySse] = [followed(ws), followed(sse)];
  for (const count of [1, 2, 3]) {
    await Promise.all([byWs.upTo(count), bySse.upTo(count)]);
    if (count < 3) await submit(address, count + 1);
  }
  const known = socketsAt([address], { connectionParams: { token } });
  const unknown = socketsAt([address], { connectionParams: { token: 'wrong' }, retryAttempts: 0 });
  const viewer = await outcome(known, '{ viewer { scopes } }');
  const refused = await outcome(ws, query.replace('"b"', '"absent"'));
  return {
    ws: byWs.scores,
    sse: bySse.scores,
    query: viewer.data.viewer.scopes,
    wrongToken: (await outcome(unknown, '{ viewer { scopes } }')).code,
    refused: refused[0].extensions.code,
  };
}

async function killed() {
  const { scores, upTo } = followed(
    socketsAt([address, other], { shouldRetry: () => true, retryAttempts: 100 }),
  );
  await upTo(1);
  await submit(address, 2);
  await upTo(2);
  process.kill(Number(pid), 'SIGKILL');
  await upTo(3);
  await submit(other, 3);
  await upTo(4);
  return { scores };
}

console.log(JSON.stringify(await { both, killed }[part]()));
process.exit(0);
