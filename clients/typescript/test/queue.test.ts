// The queue's rules, each broken line by itself. tests/system/clients/typescript.rs has the real server and the real line.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueueFullError, type NewScore } from '../src/queue.js';
import { LocalStorage, MemoryStorage } from '../src/storage.js';
import { failure, json, queueBefore, Server, type Turn } from './server.js';

const score = (points: number, member = 'ann', board = 'b'): NewScore => ({ board, member, score: points });
const points = (server: Server) => [...server.counted.values()].map(({ score }) => Number(score));

test('scores go out in order, in requests of one board and of a bounded size', async () => {
  const server = new Server();
  const { queue, outcomes } = queueBefore(server, { batchMax: 3 });
  for (const each of [score(1), score(2), score(3), score(4), score(5, 'ann', 'c'), score(6)]) await queue.add(each);
  assert.deepEqual(await queue.flush(), { left: 0 });
  assert.deepEqual(points(server), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(server.requests.map(({ board, scores }) => [board, scores.length]), [['b', 3], ['b', 1], ['c', 1], ['b', 1]]);
  assert.ok(outcomes.every(({ status }) => status === 'APPLIED'));
});

test('a request has at most so many characters of scores, and at least one score', async () => {
  const server = new Server();
  const { queue } = queueBefore(server, { batchCharactersMax: 10 });
  await Promise.all([queue.add(score(1)), queue.add(score(2))]);
  await queue.flush();
  assert.deepEqual(server.requests.map(({ scores }) => scores.length), [1, 1]);
});

test('scores that are added at once keep their order', async () => {
  const server = new Server();
  const { queue } = queueBefore(server);
  const all = Array.from({ length: 50 }, (_, index) => index);
  await Promise.all(all.map(index => queue.add(score(index))));
  await queue.flush();
  assert.deepEqual(points(server), all);
});

const BAD_LINES: [string, Turn][] = [
  ['the request is lost', () => 'refuse'],
  ['the answer is lost', () => 'lose'],
  ['a proxy answers', () => new Response('<h1>Log in</h1>', { headers: { 'Content-Type': 'text/html' } })],
  ['a proxy answers in JSON', () => json({ error: 'pay first' })],
  ['a proxy has errors', () => json({ errors: [{ message: 'no' }] }, 502)],
  ['the server is away', () => failure('UNAVAILABLE', 503)],
  ['the server is too slow', () => failure('TIMEOUT', 504)],
  ['the client is too fast', () => failure('RATE_LIMITED', 429, { 'Retry-After': '1' })],
  ['a later server is busy', () => failure('OVERLOADED', 503)],
  ['the token has expired', () => failure('EXPIRED_TOKEN', 401)],
  ['the answer is for fewer scores', () => json({ data: { submitScores: { results: [] } } })],
  ['the answer is for others', () => json({ data: { submitScores: { results: [{ member: 'bob', status: 'APPLIED' }] } } })],
  ['the outcome is unknown', () => json({ data: { submitScores: { results: [{ member: 'ann', status: 'UNKNOWN' }] } } })],
  ['a status is unknown', () => json({ data: { submitScores: { results: [{ member: 'ann', status: 'NEW' }] } } })],
  ['the answer is too long', () => new Response('x'.repeat((4 << 20) + 1))],
];

for (const [line, turn] of BAD_LINES) {
  test(`a score counts once where ${line}`, async () => {
    const server = new Server();
    server.turns.push(turn);
    const { queue, outcomes } = queueBefore(server);
    const { eventId } = await queue.add(score(7));
    const { left, error } = await queue.flush();
    assert.equal(left, 1);
    assert.ok(error);
    assert.deepEqual(outcomes, []);
    assert.deepEqual(await queue.flush(), { left: 0 });
    assert.deepEqual([...server.counted.keys()], [eventId]);
    assert.equal(outcomes.length, 1);
    assert.deepEqual(new Set(server.requests.flatMap(({ scores }) => scores.map(sent => sent.eventId))), new Set([eventId]));
  });
}

test('requests become shorter while the line breaks them, and longer again', async () => {
  const server = new Server();
  server.turns.push(() => 'refuse', () => 'lose');
  const { queue } = queueBefore(server, { batchMax: 8 });
  for (let index = 0; index < 16; index++) await queue.add(score(index));
  while ((await queue.flush()).left > 0);
  assert.deepEqual(server.requests.map(({ scores }) => scores.length), [8, 4, 2, 4, 8, 2]);
  assert.deepEqual(points(server).sort((one, other) => one - other), Array.from({ length: 16 }, (_, index) => index));
});

test('a lost answer is made up for by DUPLICATE', async () => {
  const server = new Server();
  server.turns.push(() => 'lose');
  const { queue, outcomes } = queueBefore(server);
  await queue.add(score(7));
  await queue.flush();
  await queue.flush();
  assert.deepEqual(outcomes.map(({ status }) => status), ['DUPLICATE']);
});

test('a queue goes on after a restart with the same ids', async () => {
  const server = new Server();
  server.turns.push(() => 'lose');
  const storage = new MemoryStorage();
  const first = queueBefore(server, { storage });
  const { eventId } = await first.queue.add(score(1));
  await first.queue.flush();
  const { queue, outcomes } = queueBefore(server, { storage });
  await queue.add(score(2));
  assert.deepEqual(await queue.flush(), { left: 0 });
  assert.deepEqual(outcomes.map(({ status }) => status), ['DUPLICATE', 'APPLIED']);
  assert.equal(outcomes[0]!.score.eventId, eventId);
  assert.deepEqual(points(server), [1, 2]);
  assert.deepEqual(await storage.load(), []);
});

test('a refused score is handed back with its code, and never sent again', async () => {
  const server = new Server();
  server.refused.set('bob', 'SCORE_OUT_OF_RANGE');
  const { queue, outcomes } = queueBefore(server);
  await queue.add(score(1));
  await queue.add(score(2, 'bob'));
  await queue.add(score(3));
  assert.deepEqual(await queue.flush(), { left: 0 });
  assert.deepEqual(outcomes.map(({ status, error }) => [status, error?.code]), [
    ['APPLIED', undefined],
    ['REJECTED', 'SCORE_OUT_OF_RANGE'],
    ['APPLIED', undefined],
  ]);
  assert.equal(server.requests.length, 1);
});

test('a score that is refused for a moment waits, and those beside it are done', async () => {
  const server = new Server();
  server.refused.set('bob', 'UNAVAILABLE');
  const { queue, outcomes } = queueBefore(server);
  await queue.add(score(1));
  await queue.add(score(2, 'bob'));
  const { left, error } = await queue.flush();
  assert.deepEqual([left, error?.code], [1, 'UNAVAILABLE']);
  server.refused.clear();
  assert.deepEqual(await queue.flush(), { left: 0 });
  assert.deepEqual(outcomes.map(({ status }) => status), ['APPLIED', 'APPLIED']);
});

for (const code of ['FORBIDDEN', 'NEW_CODE']) {
  test(`a request that is refused with ${code} for one score costs the others nothing`, async () => {
    const server = new Server();
    server.usual = ({ scores }) => (scores.some(({ member }) => member === 'bob') ? failure(code) : undefined);
    const { queue, outcomes } = queueBefore(server);
    for (let index = 0; index < 20; index++) await queue.add(score(index, index === 13 ? 'bob' : 'ann'));
    assert.deepEqual(await queue.flush(), { left: 0 });
    assert.equal(server.counted.size, 19);
    assert.deepEqual(outcomes.filter(({ error }) => error).map(({ score, error }) => [score.member, error!.code]), [['bob', code]]);
    assert.ok(server.requests.length < 20);
  });
}

test('a score that the server fails at is handed back after three requests of its own', async () => {
  const server = new Server();
  server.usual = ({ scores }) => (scores.some(({ member }) => member === 'bob') ? failure('INTERNAL', 500) : undefined);
  const { queue, outcomes } = queueBefore(server);
  for (const member of ['ann', 'bob', 'cid']) await queue.add(score(1, member));
  let flushes = 1;
  for (; (await queue.flush()).left > 0; flushes++) assert.ok(flushes < 10);
  assert.deepEqual(outcomes.map(({ score, status }) => [score.member, status]), [['ann', 'APPLIED'], ['bob', 'UNKNOWN'], ['cid', 'APPLIED']]);
  assert.equal(server.requests.filter(({ scores }) => scores.length === 1 && scores[0]!.member === 'bob').length, 3);
});

test('a score stays until its outcome was taken', async () => {
  const server = new Server();
  let isBroken = true;
  const taken: string[] = [];
  const { queue } = queueBefore(server, {
    onOutcome: ({ score, status }) => {
      if (isBroken && score.score === '2') throw new Error('no room');
      taken.push(`${score.score} ${status}`);
    },
  });
  for (const each of [1, 2, 3]) await queue.add(score(each));
  await assert.rejects(queue.flush(), /no room/);
  assert.equal(queue.length, 2);
  isBroken = false;
  assert.deepEqual(await queue.flush(), { left: 0 });
  assert.deepEqual(taken, ['1 APPLIED', '2 DUPLICATE', '3 DUPLICATE']);
});

test('a score whose id the server may have forgotten is handed back instead of sent again', async context => {
  context.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
  const server = new Server();
  server.turns.push(() => 'lose');
  const storage = new MemoryStorage();
  const { queue, outcomes } = queueBefore(server, { storage });
  await queue.add(score(1));
  await queue.flush();
  await queue.add(score(2));
  context.mock.timers.tick(23 * 3_600_000 + 1);
  // Another run of the program knows when the score was sent.
  const later = queueBefore(server, { storage, onOutcome: outcome => void outcomes.push(outcome) });
  assert.deepEqual(await later.queue.flush(), { left: 0 });
  assert.deepEqual(outcomes.map(({ score, status }) => [score.score, status]), [['1', 'UNKNOWN'], ['2', 'APPLIED']]);
  assert.deepEqual(points(server), [1, 2]);
});

test('one flush is under way at most', async () => {
  const server = new Server();
  const { queue } = queueBefore(server, { batchMax: 1 });
  queue.start();
  await Promise.all([1, 2, 3, 4].map(each => queue.add(score(each))));
  await Promise.all([queue.flush(), queue.flush(), queue.empty()]);
  queue.stop();
  assert.equal(server.underWayMax, 1);
  assert.equal(server.requests.length, 4);
});

test('a started queue sends what is added, and tries again by itself', async () => {
  const server = new Server();
  server.turns.push(() => 'refuse', () => 'lose', () => failure('UNAVAILABLE', 503));
  const problems: unknown[] = [];
  const { queue, outcomes } = queueBefore(server, { onProblem: error => void problems.push(error) });
  queue.start();
  await queue.add(score(1));
  await queue.empty();
  await queue.add(score(2));
  await queue.empty();
  queue.stop();
  assert.deepEqual(outcomes.map(({ status }) => status), ['DUPLICATE', 'APPLIED']);
  assert.equal(problems.length, 3);
});

test('a stopped queue gives up its request, and keeps its score', async () => {
  const server = new Server();
  const { queue, outcomes } = queueBefore(server);
  queue.start();
  await queue.add(score(1));
  const flush = queue.flush();
  queue.stop();
  assert.equal((await flush).left, 1);
  assert.deepEqual(outcomes, []);
  assert.deepEqual(await queue.flush(), { left: 0 });
});

test('a full queue takes no score, and loses none', async () => {
  const server = new Server();
  const { queue } = queueBefore(server, { lengthMax: 2 });
  await queue.add(score(1));
  await queue.add(score(2));
  await assert.rejects(queue.add(score(3)), QueueFullError);
  const { queue: small } = queueBefore(server, { charactersMax: 200 });
  await small.add(score(4));
  await assert.rejects(small.add(score(5)), QueueFullError);
  await queue.flush();
  await small.flush();
  await small.add(score(6));
  await small.flush();
  assert.deepEqual(points(server), [1, 2, 4, 6]);
});

test('a score is an exact decimal of a bounded size', async () => {
  const { queue } = queueBefore(new Server());
  for (const wrong of [0.1, 2 ** 53, Number.NaN, '1e3', '', '1.']) {
    await assert.rejects(queue.add({ board: 'b', member: 'ann', score: wrong }), TypeError);
  }
  await assert.rejects(queue.add({ ...score(1), member: 'x'.repeat(9000) }), TypeError);
  assert.equal(queue.length, 0);
  for (const [given, sent] of [[-5, '-5'], [12n, '12'], ['1234.50', '1234.50']] as const) {
    assert.equal((await queue.add({ board: 'b', member: 'ann', score: given })).score, sent);
  }
});

/** A store of the shape of `localStorage`. */
function webStorage() {
  const texts = new Map<string, string>();
  return {
    texts,
    get length() {
      return texts.size;
    },
    key: (index: number) => [...texts.keys()][index] ?? null,
    getItem: (key: string) => texts.get(key) ?? null,
    setItem: (key: string, value: string) => void texts.set(key, value),
    removeItem: (key: string) => void texts.delete(key),
  };
}

test('two tabs with one store lose nothing, and touch nothing else in it', async () => {
  const server = new Server();
  const store = webStorage();
  store.setItem('theme', 'dark');
  store.setItem('laurel:zoe:0000000000000001-a', 'no score');
  const problems: unknown[] = [];
  const onProblem = (error: unknown) => void problems.push(error);
  const [one, other] = [0, 1].map(() => queueBefore(server, { storage: new LocalStorage('ann', store), onProblem }).queue);
  await Promise.all([one!.add(score(1)), other!.add(score(2)), one!.add(score(3))]);
  assert.deepEqual(await one!.flush(), { left: 0 });
  assert.deepEqual(await other!.flush(), { left: 0 });
  assert.deepEqual(points(server).sort(), [1, 2, 3]);
  assert.equal(server.requests.length, 1);
  assert.deepEqual([...store.texts.keys()], ['theme', 'laurel:zoe:0000000000000001-a']);
  assert.deepEqual(problems, []);
  // One that is damaged is told, stays, and stands in the way of no other.
  const zoe = queueBefore(server, { storage: new LocalStorage('zoe', store), onProblem }).queue;
  await zoe.add(score(4));
  assert.deepEqual(await zoe.flush(), { left: 0 });
  assert.ok(problems.length > 0);
  assert.equal(store.texts.size, 2);
});

test('a storage that fails is told to the program', async () => {
  const server = new Server();
  const storage = new MemoryStorage();
  storage.put = () => Promise.reject(new Error('disk full'));
  const { queue } = queueBefore(server, { storage });
  await assert.rejects(queue.add(score(1)), /disk full/);
  assert.equal(queue.length, 0);
  assert.equal(server.requests.length, 0);
});
