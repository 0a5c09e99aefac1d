// Apollo Client with its cache: pages, refetches, and lets the cache follow a submission and a removal. Prints what it saw as
// one line of JSON. session.js has the arguments.

import * as session from './session.js';
import { isDeepStrictEqual } from 'node:util';
import { ApolloClient, HttpLink, InMemoryCache } from '@apollo/client';
import { loadDevMessages, loadErrorMessages } from '@apollo/client/dev';
import { relayStylePagination } from '@apollo/client/utilities';
import { ENTRY, HOME, HOME_AGAIN, LEADERS, REMOVE, SUBMIT } from './documents.js';

loadDevMessages();
loadErrorMessages();

const { __schema: schema } = await session.ask('{ __schema { types { kind name possibleTypes { name } } } }');
const abstract = schema.types.filter(({ kind }) => ['INTERFACE', 'UNION'].includes(kind));
const possibleTypes = Object.fromEntries(
  abstract.map(({ name, possibleTypes }) => [name, possibleTypes.map(({ name }) => name)]),
);

const cache = new InMemoryCache({
  possibleTypes,
  typePolicies: {
    Query: { fields: { boards: relayStylePagination() } },
    Board: { fields: { periods: relayStylePagination(['window']) } },
    Member: { fields: { friends: relayStylePagination(), events: relayStylePagination(['board']) } },
    Standings: {
      fields: {
        top: relayStylePagination(['minScore', 'maxScore']),
        friends: relayStylePagination(['member', 'includeSelf', 'includeMissing']),
      },
    },
    Viewer: { keyFields: [] },
  },
});

const client = new ApolloClient({
  cache,
  link: new HttpLink({ uri: session.url, headers: session.headers, fetch: session.counted }),
});

const outcome = {};
const variables = { board: 'ladder', first: 10 };
let drawn;
const leaders = client.watchQuery({ query: LEADERS, variables });
leaders.subscribe(({ data }) => (drawn = data));
const list = () => session.lines(drawn?.board.standings.top.edges.map(({ node }) => node) ?? []);

await session.until(10, () => list().length);
for (let page = drawn.board.standings.top.pageInfo; page.hasNextPage; page = drawn.board.standings.top.pageInfo) {
  await leaders.fetchMore({ variables: { after: page.endCursor } });
  await session.until(false, () => drawn.board.standings.top.pageInfo.endCursor === page.endCursor);
}
outcome.pages = { requests: session.requests, lines: list() };

const home = { board: 'ladder', member: 'm09' };
const screens = [];
for (const query of [HOME, HOME_AGAIN]) {
  const { data } = await client.query({ query, variables: home });
  screens.push({ query, data });
}
outcome.kept = screens.map(({ query, data }) => isDeepStrictEqual(cache.readQuery({ query, variables: home }), data));

await session.submitElsewhere('m25', 2450);
const refetched = await session.requestsOf(() => leaders.refetch());
outcome.refetched = { requests: refetched, lines: list().slice(0, 3) };

const last = drawn.board.standings.top.edges.at(-1).node;
await session.submitElsewhere(last.member.key, 2425);
const { data } = await client.query({ query: ENTRY, variables: { id: last.id }, fetchPolicy: 'network-only' });
outcome.entry = session.lines([data.node]);
await session.until(true, () => list().includes(outcome.entry[0]));

const submission = { input: { board: 'ladder', scores: [{ member: 'm03', score: 2600 }] } };
const submitted = await session.requestsOf(() => client.mutate({ mutation: SUBMIT, variables: submission }));
outcome.submitted = { requests: submitted, lines: list().filter(line => line.includes(' m03 ')) };

const removal = { input: { board: 'ladder', member: 'm01' }, first: 10 };
const update = (cache, { data }) => {
  cache.evict({ id: cache.identify({ __typename: 'Entry', id: data.removeEntry.deletedEntryId }) });
  cache.gc();
};
const removed = await session.requestsOf(() => client.mutate({ mutation: REMOVE, variables: removal, update }));
outcome.removed = { requests: removed, size: drawn.board.standings.size, lines: list().slice(0, 4) };

outcome.heard = await session.isHeard(() => {
  const other = new InMemoryCache();
  for (const { query, data } of screens) other.writeQuery({ query, variables: home, data });
});
session.end(outcome);
