// Relay: compiles the documents of this file by relay-compiler, and executes them by relay-runtime. It pages on and back,
// refetches, and lets the store follow a submission and a removal. Prints what it saw as one line of JSON.
// session.js has the arguments.

import * as session from './session.js';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import compiler from 'relay-compiler';
import relay from 'relay-runtime';

const { commitMutation, createOperationDescriptor, Environment, fetchQuery, getPaginationMetadata } = relay;
const { getPaginationVariables, getRefetchMetadata, getSelector, getValueAtPath } = relay;
const { Network, RecordSource, Store } = relay;

const ARTIFACTS = join(session.directory, 'artifacts');
const SCHEMA = new URL('../../../schema.graphql', import.meta.url);

compile();
const artifact = createRequire(join(ARTIFACTS, 'index.js'));

/** Stands for the plugin of Babel, which puts the artifact in the place of a document. */
function graphql([text]) {
  const [, name] = text.match(/(?:query|fragment|mutation) (\w+)/);
  return artifact(`./${name}.graphql.js`);
}

const LEADERS = graphql`
  query relayLeadersQuery($board: String!) {
    board(slug: $board) {
      title
      standings {
        ...relay_standings
      }
    }
  }
`;

const STANDINGS = graphql`
  fragment relay_standings on Standings
  @refetchable(queryName: "relayStandingsQuery")
  @argumentDefinitions(count: { type: "Int", defaultValue: 10 }, cursor: { type: "String" }) {
    size
    top(first: $count, after: $cursor) @connection(key: "relay_top") {
      edges {
        node {
          id
          rank
          score
          member {
            key
          }
        }
      }
    }
  }
`;

const BOARDS = graphql`
  query relayBoardsQuery {
    ...relay_boards
  }
`;

const BACK = graphql`
  fragment relay_boards on Query
  @refetchable(queryName: "relayBoardsBackQuery")
  @argumentDefinitions(count: { type: "Int", defaultValue: 2 }, cursor: { type: "String" }) {
    boards(last: $count, before: $cursor) @connection(key: "relay_boards") {
      edges {
        node {
          slug
        }
      }
    }
  }
`;

const NODE = graphql`
  query relayNodeQuery($id: ID!) {
    node(id: $id) {
      ...relay_entry @alias(as: "entry")
    }
  }
`;

const ENTRY = graphql`
  fragment relay_entry on Entry @refetchable(queryName: "relayEntryQuery") {
    id
    rank
    score
    member {
      key
      ...relay_member
    }
  }
`;

const MEMBER = graphql`
  fragment relay_member on Member
  @refetchable(queryName: "relayMemberQuery")
  @argumentDefinitions(count: { type: "Int", defaultValue: 1 }, cursor: { type: "String" }) {
    friends(first: $count, after: $cursor) @connection(key: "relay_friends") {
      edges {
        node {
          key
        }
      }
    }
  }
`;

const SUBMIT = graphql`
  mutation relaySubmitMutation($input: SubmitScoresInput!) {
    submitScores(input: $input) {
      results {
        status
        entry {
          id
          rank
          score
        }
      }
    }
  }
`;

const REMOVE = graphql`
  mutation relayRemoveMutation($input: RemoveEntryInput!) {
    removeEntry(input: $input) {
      deletedEntryId @deleteRecord
      board {
        standings {
          ...relay_standings
        }
      }
    }
  }
`;

/** The compiler sees a directory with nothing but this file and the schema. */
function compile() {
  const sources = join(session.directory, 'sources');
  for (const directory of [sources, ARTIFACTS]) mkdirSync(directory);
  copyFileSync(new URL(import.meta.url), join(sources, 'relay.js'));
  copyFileSync(SCHEMA, join(session.directory, 'schema.graphql'));
  const config = {
    src: 'sources',
    schema: 'schema.graphql',
    artifactDirectory: 'artifacts',
    language: 'javascript',
    eagerEsModules: false,
  };
  writeFileSync(join(session.directory, 'relay.config.json'), JSON.stringify(config));
  const options = { cwd: session.directory, stdio: ['ignore', 'ignore', 'inherit'] };
  execFileSync(compiler, ['--noWatchman', '--output', 'quiet-with-errors', 'relay.config.json'], options);
}

const environment = new Environment({
  network: Network.create(async ({ text }, variables) => {
    const body = JSON.stringify({ query: text, variables });
    return (await session.counted(session.url, { method: 'POST', headers: session.headers, body })).json();
  }),
  store: new Store(new RecordSource()),
  relayFieldLogger: event => session.complaints.push(`field: ${JSON.stringify(event)}`),
});

/** Fetches a query and keeps its records; its data in the store. */
async function load(request, variables) {
  await fetchQuery(environment, request, variables, { fetchPolicy: 'network-only' }).toPromise();
  const operation = createOperationDescriptor(request, variables);
  environment.retain(operation);
  const { status } = environment.check(operation);
  if (status !== 'available') session.complaints.push(`${request.params.name} is ${status} in the store`);
  return read(operation.fragment);
}

/** The data of a selector in the store, which must be whole. */
function read(selector) {
  const { data, isMissingData } = environment.lookup(selector);
  if (isMissingData) session.complaints.push(`${selector.node.name} lacks data`);
  return data;
}

/** Fetches the next page of a fragment's connection, as `loadNext` and `loadPrevious` of React's hooks do. */
async function loadMore(fragment, reference, direction, count) {
  const { connectionPathInFragmentData, paginationMetadata, paginationRequest } =
    getPaginationMetadata(fragment, 'loadMore');
  const { identifierInfo } = getRefetchMetadata(fragment, 'loadMore');
  const selector = getSelector(fragment, reference);
  const data = read(selector);
  const { pageInfo } = getValueAtPath(data, connectionPathInFragmentData);
  const [cursor, more] =
    direction === 'forward'
      ? [pageInfo.endCursor, pageInfo.hasNextPage]
      : [pageInfo.startCursor, pageInfo.hasPreviousPage];
  if (!more) return false;
  const { variables } = selector;
  const next = getPaginationVariables(direction, count, cursor, variables, {}, paginationMetadata);
  await load(paginationRequest, { ...next, ...identified(identifierInfo, data) });
  return true;
}

/** Fetches a fragment again, by the `node` of its object, as `refetch` of React's hooks does. */
async function refetch(fragment, reference) {
  const { identifierInfo, refetchableRequest } = getRefetchMetadata(fragment, 'refetch');
  const selector = getSelector(fragment, reference);
  await load(refetchableRequest, { ...selector.variables, ...identified(identifierInfo, read(selector)) });
}

function identified(identifierInfo, data) {
  if (!identifierInfo) return {};
  return { [identifierInfo.identifierQueryVariableName]: data[identifierInfo.identifierField] };
}

function mutate(mutation, input) {
  return new Promise((resolve, reject) => {
    const onCompleted = (data, errors) => (errors ? reject(new Error(JSON.stringify(errors))) : resolve(data));
    commitMutation(environment, { mutation, variables: { input }, onCompleted, onError: reject });
  });
}

const outcome = {};
const { board } = await load(LEADERS, { board: 'ladder' });
const shown = getSelector(STANDINGS, board.standings);
let drawn = environment.lookup(shown).data;
environment.subscribe(environment.lookup(shown), ({ data }) => (drawn = data));
const list = () => session.lines(drawn.top.edges.map(({ node }) => node));

while (await loadMore(STANDINGS, board.standings, 'forward', 10));
outcome.pages = { requests: session.requests, lines: list() };

const back = await load(BOARDS, {});
while (await loadMore(BACK, back, 'backward', 2));
outcome.boards = read(getSelector(BACK, back)).boards.edges.map(({ node }) => node.slug);

await session.submitElsewhere('m25', 2450);
const refetched = await session.requestsOf(() => refetch(STANDINGS, board.standings));
outcome.refetched = { requests: refetched, lines: list().slice(0, 3) };

const last = drawn.top.edges.at(-1).node;
const { node } = await load(NODE, { id: last.id });
await session.submitElsewhere(last.member.key, 2425);
await refetch(ENTRY, node.entry);
const entry = read(getSelector(ENTRY, node.entry));
outcome.entry = session.lines([entry]);
while (await loadMore(MEMBER, entry.member, 'forward', 1));
outcome.friends = read(getSelector(MEMBER, entry.member)).friends.edges.map(({ node }) => node.key);
await session.until(true, () => list().includes(outcome.entry[0]));

const scores = [{ member: 'm03', score: 2600 }];
const submitted = await session.requestsOf(() => mutate(SUBMIT, { board: 'ladder', scores }));
outcome.submitted = { requests: submitted, lines: list().filter(line => line.includes(' m03 ')) };

const removed = await session.requestsOf(() => mutate(REMOVE, { board: 'ladder', member: 'm01' }));
outcome.removed = { requests: removed, size: drawn.size, lines: list().slice(0, 4) };

outcome.heard = await session.isHeard(() => {
  const lacksTitle = { board: { id: 'board:none', standings: null } };
  environment.commitPayload(createOperationDescriptor(LEADERS, { board: 'none' }), lacksTitle);
});
session.end(outcome);
