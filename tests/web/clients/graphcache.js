// urql with its normalized cache, which knows the schema: pages, refetches, and lets the cache follow a submission and a removal.
// Prints what it saw as one line of JSON. session.js has the arguments.

import * as session from './session.js';
import { isDeepStrictEqual } from 'node:util';
import { Client, fetchExchange } from '@urql/core';
import { cacheExchange } from '@urql/exchange-graphcache';
import { relayPagination } from '@urql/exchange-graphcache/extras';
import { getIntrospectionQuery } from 'graphql';
import { ENTRY, HOME, HOME_AGAIN, LEADERS, REMOVE, SUBMIT } from './documents.js';

const schema = await session.ask(getIntrospectionQuery({ descriptions: false }));

const cache = cacheExchange({
  schema,
  keys: { ScoreBucket: () => null, Viewer: () => null },
  resolvers: {
    Query: { boards: relayPagination() },
    Standings: { top: relayPagination(), friends: relayPagination() },
    Board: { periods: relayPagination() },
    Member: { friends: relayPagination(), events: relayPagination() },
  },
  updates: {
    Mutation: {
      removeEntry: (result, _arguments, cache) =>
        cache.invalidate({ __typename: 'Entry', id: result.removeEntry.deletedEntryId }),
    },
  },
});

const connect = cache =>
  new Client({
    url: session.url,
    fetchOptions: { headers: session.headers },
    fetch: session.counted,
    exchanges: [cache, fetchExchange],
  });
const client = connect(cache);

/** The data of an answer without errors. */
async function data(source) {
  const answer = await source.toPromise();
  if (answer.error) throw answer.error;
  return answer.data;
}

const outcome = {};
const variables = { board: 'ladder', first: 10 };
let drawn;
client.query(LEADERS, variables).subscribe(({ data }) => (drawn = data));
const list = () => session.lines(drawn?.board.standings.top.edges.map(({ node }) => node) ?? []);
await session.until(10, () => list().length);
for (let page = drawn.board.standings.top.pageInfo; page.hasNextPage; page = drawn.board.standings.top.pageInfo) {
  await data(client.query(LEADERS, { ...variables, after: page.endCursor }));
  await session.until(false, () => drawn.board.standings.top.pageInfo.endCursor === page.endCursor);
}
outcome.pages = { requests: session.requests, lines: list() };

const home = { board: 'ladder', member: 'm09' };
const screens = [];
for (const query of [HOME, HOME_AGAIN]) screens.push({ query, data: await data(client.query(query, home)) });
outcome.kept = screens.map(({ query, data }) => isDeepStrictEqual(client.readQuery(query, home)?.data, data));

await session.submitElsewhere('m25', 2450);
const refetch = () => data(client.query(LEADERS, variables, { requestPolicy: 'network-only' }));
outcome.refetched = { requests: await session.requestsOf(refetch), lines: list().slice(0, 3) };

const last = drawn.board.standings.top.edges.at(9).node;
await session.submitElsewhere(last.member.key, 2425);
const { node } = await data(client.query(ENTRY, { id: last.id }, { requestPolicy: 'network-only' }));
outcome.entry = session.lines([node]);
await session.until(true, () => list().includes(outcome.entry[0]));

const submission = { input: { board: 'ladder', scores: [{ member: 'm03', score: 2600 }] } };
const submitted = await session.requestsOf(() => data(client.mutation(SUBMIT, submission)));
outcome.submitted = { requests: submitted, lines: list().filter(line => line.includes(' m03 ')) };

const removal = { input: { board: 'ladder', member: 'm01' }, first: 10 };
const removed = await session.requestsOf(() => data(client.mutation(REMOVE, removal)));
outcome.removed = { requests: removed, size: drawn.board.standings.size, lines: list().slice(0, 4) };

outcome.heard = await session.isHeard(() => data(connect(cacheExchange({ schema })).query(HOME, home)));
session.end(outcome);
