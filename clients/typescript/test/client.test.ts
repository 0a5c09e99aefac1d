// Requests, streams, pauses and files.

import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { LaurelClient } from '../src/client.js';
import { LaurelError } from '../src/errors.js';
import { FileStorage } from '../src/file.js';
import { LiveTopDocument, TopDocument } from '../src/generated.js';
import { eventOf, follow } from '../src/live.js';
import { pauseMs, randomId } from '../src/pause.js';
import { failure, json, queueBefore, Server } from './server.js';

const url = 'https://scores.example/graphql';
const backoff = { firstMs: 1, maxMs: 2 };

/** A client whose requests have these answers, and the requests. */
function clientOf(answers: (Response | Error)[]) {
  const requests: RequestInit[] = [];
  const fetch = async (_url: unknown, init?: RequestInit) => {
    requests.push(init!);
    const answer = answers.shift()!;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  let tokens = 0;
  const client = new LaurelClient({ url, backoff, fetch: fetch as typeof globalThis.fetch, token: async () => `token${++tokens}` });
  return { client, requests };
}

const header = (init: RequestInit, name: string) => (init.headers as Record<string, string>)[name];

test('a query is sent again after a failure that passes, with the token of that moment', async () => {
  const { client, requests } = clientOf([new TypeError('fetch failed'), failure('UNAVAILABLE'), json({ data: { board: null } })]);
  assert.deepEqual(await client.request(TopDocument, { board: 'b' }), { board: null });
  assert.deepEqual(requests.map(init => header(init, 'Authorization')), ['Bearer token1', 'Bearer token2', 'Bearer token3']);
  assert.equal(new Set(requests.map(init => header(init, 'X-Request-Id'))).size, 3);
  assert.ok(requests.every(init => init.redirect === 'error'));
});

test('a query ends after three attempts, and at once where it is wrong', async () => {
  const away = clientOf([1, 2, 3, 4].map(() => failure('UNAVAILABLE', 503, { 'Retry-After': '0' })));
  await assert.rejects(away.client.request(TopDocument, { board: 'b' }), { code: 'UNAVAILABLE', status: 503 });
  assert.equal(away.requests.length, 3);
  const wrong = clientOf([failure('BAD_USER_INPUT', 400)]);
  await assert.rejects(wrong.client.request(TopDocument, { board: 'b' }), { code: 'BAD_USER_INPUT' });
});

test('a mutation is sent once', async () => {
  const { client, requests } = clientOf([failure('UNAVAILABLE')]);
  await assert.rejects(client.request('mutation { deleteBoard(input: { slug: "b" }) { deletedBoardId } }', {}), { code: 'UNAVAILABLE' });
  assert.equal(requests.length, 1);
});

test('an answer that does not come in time is an error of the network', async () => {
  const fetch = (_url: unknown, init?: RequestInit) => {
    return new Promise<Response>((_, reject) => init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason as Error)));
  };
  const client = new LaurelClient({ url, timeoutMs: 5, attemptsMax: 1, fetch: fetch as typeof globalThis.fetch });
  await assert.rejects(client.request(TopDocument, { board: 'b' }), (error: LaurelError) => error.code === 'NETWORK' && error.isTransient);
});

test('a token that does not come in time is one, too', async () => {
  const client = new LaurelClient({ url, timeoutMs: 5, attemptsMax: 1, token: () => new Promise<string>(() => {}) });
  await assert.rejects(client.request(TopDocument, { board: 'b' }), { code: 'NETWORK' });
});

test('pauses grow, have a bound, and are never shorter than the server asks for', () => {
  for (let round = 0; round < 200; round++) {
    for (const [failures, most] of [[1, 100], [2, 200], [3, 400], [60, 1000]] as const) {
      const pause = pauseMs({ firstMs: 100, maxMs: 1000 }, failures);
      assert.ok(pause >= most / 2 && pause <= most, `${pause}`);
    }
    const asked = pauseMs({ firstMs: 100, maxMs: 1000 }, 1, 7000);
    assert.ok(asked >= 7000 && asked <= 8750);
    assert.ok(pauseMs({ firstMs: 100, maxMs: 1000 }, 1, 1e12) <= 4_500_000);
  }
});

test('ids are random UUIDs', () => {
  const ids = new Set(Array.from({ length: 1000 }, randomId));
  assert.equal(ids.size, 1000);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

/** An event stream in pieces. */
function stream(pieces: string[]): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(encoder.encode(piece));
      controller.close();
    },
  });
  return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
}

const event = (rank: number) => `event: next\ndata: {"data":{"top":{"nodes":[{"rank":${rank}}]}}}\n\n`;
const refusal = (code: string) => `event: next\ndata: {"errors":[{"message":"no","extensions":{"code":"${code}"}}]}\n\nevent: complete\ndata:\n\n`;

/** Follows streams until they end. */
async function followed(answers: (Response | Error)[]) {
  const { client, requests } = clientOf(answers);
  const ranks: (number | undefined)[] = [];
  const states: string[] = [];
  const last = await new Promise<LaurelError | undefined>(resolve => {
    follow(client, LiveTopDocument, { board: 'b' }, {
      next: ({ top }) => ranks.push(top.nodes[0]?.rank),
      state: (state, error) => {
        states.push(state);
        if (state === 'ended') resolve(error);
      },
    });
  });
  return { ranks, states, last, requests };
}

test('a subscription begins again after every break, and ends when the server says so', async () => {
  const { ranks, states, last, requests } = await followed([
    stream([':\n\n', event(1).slice(0, 30), event(1).slice(30)]),
    new TypeError('fetch failed'),
    stream([event(2) + event(3), 'event: next\nda']),
    failure('UNAVAILABLE', 503),
    new Response('<h1>Log in</h1>'),
    stream([refusal('EXPIRED_TOKEN')]),
    stream([refusal('UNAVAILABLE')]),
    stream([event(4), 'event: complete\ndata:\n\n']),
  ]);
  assert.deepEqual(ranks, [1, 2, 3, 4]);
  assert.equal(last, undefined);
  assert.equal(states.filter(state => state === 'waiting').length, 7);
  assert.equal(header(requests[6]!, 'Authorization'), 'Bearer token7');
});

test('a subscription that is refused ends with the reason', async () => {
  for (const answer of [stream([refusal('NOT_FOUND')]), failure('BAD_USER_INPUT', 400)]) {
    const { last } = await followed([answer]);
    assert.ok(last?.code === 'NOT_FOUND' || last?.code === 'BAD_USER_INPUT');
  }
});

test('a subscription that is left tells nothing more', async () => {
  const { client } = clientOf([stream([event(1), event(2)]), stream([event(3)])]);
  const told: unknown[] = [];
  const stop = follow(client, LiveTopDocument, { board: 'b' }, {
    next: ({ top }) => {
      told.push(top.nodes[0]?.rank);
      stop();
    },
    state: state => told.push(state),
  });
  await new Promise(resolve => setTimeout(resolve, 50));
  assert.deepEqual(told, ['connecting', 'live', 1]);
});

test('an event has a name and lines of data', () => {
  assert.deepEqual(eventOf('event: next\r\ndata: a\r\ndata:b: c'), { name: 'next', data: 'a\nb: c' });
  assert.deepEqual(eventOf(':'), { name: '', data: '' });
});

test('a directory keeps scores, and no halves of them', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'laurel-queue-'));
  try {
    const path = join(directory, 'ann');
    const server = new Server();
    server.turns.push(() => 'refuse');
    const first = queueBefore(server, { storage: new FileStorage(path) });
    await first.queue.add({ board: 'b', member: 'ann', score: 1 });
    await first.queue.flush();
    await writeFile(join(path, '0000000000000001-x.json.y'), '{"score":{"bo');
    const { queue } = queueBefore(server, { storage: new FileStorage(path) });
    await queue.add({ board: 'b', member: 'ann', score: 2 });
    assert.deepEqual(await queue.flush(), { left: 0 });
    assert.deepEqual([...server.counted.values()].map(({ score }) => score), ['1', '2']);
    assert.deepEqual(await readdir(path), []);
  } finally {
    await rm(directory, { recursive: true });
  }
});
