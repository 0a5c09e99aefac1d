// The session of a client's program: its arguments, its requests, its complaints, and another client beside it.
//
// node PROGRAM.js ADDRESS TOKEN DIRECTORY
//
// The server at the address has the board `ladder`. The directory is empty, for files of the program's own.

import { format, isDeepStrictEqual } from 'node:util';

// Libraries complain in development only. They look when they are loaded, so a program imports this file first.
globalThis.__DEV__ = true;
process.env.NODE_ENV = 'development';

const [address, token, directory] = process.argv.slice(2);

export { directory };
export const url = `${address}/graphql`;
export const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };

/** How long a program waits for what must come, in milliseconds. */
const PATIENCE_MS = 60_000;

/** The requests that the client has sent. */
export let requests = 0;

/** Warnings and errors on the console, where a library has its complaints. */
export const complaints = [];
for (const kind of ['warn', 'error']) {
  console[kind] = (...words) => complaints.push(`${kind}: ${format(...words)}`);
}

/** The `fetch` of the client, which counts. */
export function counted(...request) {
  requests += 1;
  return fetch(...request);
}

/** The number of requests that some work took. */
export async function requestsOf(work) {
  const before = requests;
  await work();
  return requests - before;
}

/** The data of a request that another client sends. */
export async function ask(query, variables = {}) {
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await answer.json();
  if (errors) throw new Error(JSON.stringify(errors));
  return data;
}

/** Another client submits a score. */
export async function submitElsewhere(member, score) {
  const data = await ask(
    'mutation($input: SubmitScoresInput!) { submitScores(input: $input) { accepted } }',
    { input: { board: 'ladder', scores: [{ member, score }] } },
  );
  if (data.submitScores.accepted !== 1) throw new Error('the score was not accepted');
}

/** Waits until something is as expected. */
export async function until(expected, found) {
  const end = Date.now() + PATIENCE_MS;
  while (!isDeepStrictEqual(found(), expected)) {
    if (Date.now() > end) throw new Error(format('expected %j, found %j', expected, found()));
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

/** The list as a person sees it: rank, member and score of each entry. */
export function lines(entries) {
  return entries.map(({ rank, member, score }) => `${rank} ${member.key} ${score}`);
}

/** True if a complaint is heard once a library has a reason; it counts no more. */
export async function isHeard(provoke) {
  const before = complaints.length;
  await provoke();
  return complaints.splice(before).length > 0;
}

/** Prints the outcome as one line of JSON, and ends. */
export function end(outcome) {
  console.log(JSON.stringify({ ...outcome, complaints }));
  process.exit(0);
}
