// A React program that follows a board: hooks.js URL BOARD MEMBER. It prints a line of JSON whenever it draws something new, and
// ends when its input does.

import { LaurelClient, MemoryStorage, ScoreQueue, TopDocument } from 'laurel-client';
import { LaurelProvider, useEntry, useQuery, useQueueLength, useTop } from 'laurel-client/react';
import { createElement } from 'react';
import { act, create, type ReactTestRenderer } from 'react-test-renderer';

const [url, board, member] = process.argv.slice(2);
const client = new LaurelClient({ url: url!, token: () => process.env.LAUREL_TOKEN, backoff: { firstMs: 50, maxMs: 200 } });
const queue = new ScoreQueue({ client, storage: new MemoryStorage(), onOutcome: () => {} });
let drawn = '';

function Board() {
  const top = useTop({ board: board!, first: 10 });
  const mine = useEntry({ board: board!, member: member! });
  const refused = useTop({ board: 'no-such-board' });
  const asked = useQuery(TopDocument, { board: board! });
  const picture = JSON.stringify({
    top: top.data?.map(entry => `${entry.member?.key} ${entry.score}`),
    state: top.state,
    mine: mine.data?.score,
    refused: refused.error?.code,
    title: asked.data?.board?.title,
    queued: useQueueLength(queue),
  });
  if (picture !== drawn) console.log((drawn = picture));
  return null;
}

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
let root: ReactTestRenderer | undefined;
await act(async () => {
  root = create(createElement(LaurelProvider, { client }, createElement(Board)));
});
Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: false });
await queue.add({ board: board!, member: member!, score: 5 });
process.stdin.once('data', () => void queue.flush());
process.stdin.once('end', () => {
  root?.unmount();
  queue.stop();
});
