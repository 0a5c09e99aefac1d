// Subscriptions: over one WebSocket, or over events where a network lets no WebSocket through.

import { signal } from '@preact/signals';
import { type Client, createClient } from 'graphql-ws';
import { problemOf, type Problem } from './ask';
import type { TypedDocumentString } from './generated';
import { token } from './token';

/** The attempts to open a first WebSocket before events take its place. */
const ATTEMPTS_MAX = 2;

/** The longest pause between two attempts, in milliseconds. */
const PAUSE_MAX_MS = 20_000;

export type Connection = 'none' | 'waiting' | 'live';

/** The state of the connection that brings changes. */
export const connection = signal<Connection>('none');

/** The way by which changes come. */
let way: 'socket' | 'events' = new URLSearchParams(location.search).get('live') === 'events' ? 'events' : 'socket';
let client: { of: string; socket: Client } | undefined;

function pause(attempts: number): Promise<void> {
  // Clients that were cut off together do not come back together.
  const ms = Math.min(PAUSE_MAX_MS, 500 * 2 ** attempts) * (0.5 + Math.random() / 2);
  return new Promise(resolve => setTimeout(resolve, ms));
}

function socket(): Client {
  const of = token.peek();
  if (client?.of === of) return client.socket;
  client?.socket.dispose();
  let connected = false;
  let attempts = 0;
  const opened = createClient({
    url: `${location.protocol.replace('http', 'ws')}//${location.host}/graphql`,
    connectionParams: of ? { token: of } : {},
    lazyCloseTimeout: 2_000,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait: pause,
    shouldRetry: () => connected || ++attempts < ATTEMPTS_MAX,
    on: {
      connecting: () => (connection.value = 'waiting'),
      connected: () => {
        connected = true;
        connection.value = 'live';
      },
      closed: () => {
        // One with an earlier token may close after the next one is open.
        if (client?.socket === opened) connection.value = 'waiting';
      },
    },
  });
  client = { of, socket: opened };
  return opened;
}

interface Sink<D> {
  next: (data: D) => void;
  /** The server refuses the subscription. */
  refuse: (problem: Problem) => void;
}

interface Message<D> {
  data?: D | null;
  errors?: readonly { message: string; extensions?: object }[];
}

function take<D>({ data, errors }: Message<D>, sink: Sink<D>) {
  if (data) sink.next(data);
  else if (errors?.[0]) sink.refuse(problemOf(errors[0] as Parameters<typeof problemOf>[0]));
}

/** Follows a subscription until the function that it returns is called. */
export function follow<D, V extends Record<string, unknown>>(
  document: TypedDocumentString<D, V>,
  variables: V,
  sink: Sink<D>,
): () => void {
  const operation = { query: document.toString(), variables };
  const stop = new AbortController();
  const byEvents = () => void events(operation, sink, stop.signal);
  if (way === 'events') {
    byEvents();
    return () => stop.abort();
  }
  const end = socket().subscribe<D>(operation, {
    next: message => take(message as Message<D>, sink),
    error: error => {
      if (stop.signal.aborted) return;
      if (Array.isArray(error)) return sink.refuse(problemOf(error[0]));
      // The socket is closed for good: its token is wrong, or no socket comes through.
      const code = (error as CloseEvent).code;
      if (code === 4400 || code === 4401 || code === 4403) return void (connection.value = 'waiting');
      way = 'events';
      byEvents();
    },
    complete: () => {},
  });
  return () => {
    stop.abort();
    end();
  };
}

/** Reads events until they are stopped, or the server refuses. */
async function events<D>(operation: object, sink: Sink<D>, stop: AbortSignal) {
  for (let attempts = 0; !stop.aborted; attempts += 1) {
    try {
      const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'text/event-stream' };
      if (token.peek()) headers['authorization'] = `Bearer ${token.peek()}`;
      const body = JSON.stringify(operation);
      const response = await fetch('/graphql', { method: 'POST', headers, body, signal: stop });
      if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
      connection.value = 'live';
      for await (const event of parsed(response.body)) {
        if (event.kind === 'complete') return;
        if (event.data) take(JSON.parse(event.data) as Message<D>, sink);
        attempts = 0;
      }
    } catch {
      // A pause, and again.
    }
    if (stop.aborted) return;
    connection.value = 'waiting';
    await pause(attempts);
  }
}

async function* parsed(body: ReadableStream<Uint8Array<ArrayBuffer>>) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const lines = block.split(/\r?\n/);
      const of = (name: string) => lines.filter(line => line.startsWith(`${name}: `)).map(line => line.slice(name.length + 2));
      yield { kind: of('event')[0] ?? '', data: of('data').join('\n') };
    }
  }
}
