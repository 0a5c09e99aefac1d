// The entry of `laurel-client/react`: hooks that follow a board live.

import { createContext, createElement, useContext, useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode } from 'react';
import type { Document, LaurelClient } from './client.js';
import { LaurelError } from './errors.js';
import {
  LiveEntryDocument,
  LiveTopDocument,
  type LiveEntrySubscription,
  type LiveEntrySubscriptionVariables,
  type LiveTopSubscription,
  type LiveTopSubscriptionVariables,
} from './generated.js';
import { follow, type LiveState } from './live.js';
import type { ScoreQueue } from './queue.js';

const Client = createContext<LaurelClient | null>(null);

/** Gives a client to the hooks below it. */
export function LaurelProvider({ client, children }: { client: LaurelClient; children?: ReactNode }) {
  return createElement(Client.Provider, { value: client }, children);
}

/** The client of the provider. */
export function useLaurel(): LaurelClient {
  const client = useContext(Client);
  if (!client) throw new Error('a hook of laurel-client is outside LaurelProvider');
  return client;
}

/** The last answer of a subscription, which stays while the line is down. */
export interface Live<Data> {
  data: Data | undefined;
  /** `live` while the answer is of now, `waiting` after a failure, and `ended` if the server refuses the subscription. */
  state: LiveState;
  /** The reason, unless the state is `live`. */
  error: LaurelError | undefined;
}

const BEGINNING = { data: undefined, state: 'connecting', error: undefined } as const;

/** Follows a subscription while the component is shown. Each hook has a stream of its own. */
export function useLive<Data, Variables>(document: Document<Data, Variables>, variables: Variables): Live<Data> {
  const client = useLaurel();
  const key = JSON.stringify([document, variables]);
  const [live, setLive] = useState<Live<Data> & { of?: string }>(BEGINNING);
  useEffect(() => {
    const [text, values] = JSON.parse(key) as [Document<Data, Variables>, Variables];
    // Another subscription does not begin with the answer of the last one.
    setLive({ ...BEGINNING, of: key });
    return follow(client, text, values, {
      next: (data, errors) => setLive({ data, state: 'live', error: errors[0], of: key }),
      state: (state, error) => setLive(last => ({ ...last, state, error })),
    });
  }, [client, key]);
  return live.of === key ? live : BEGINNING;
}

/** The first entries of a board's standings. */
export function useTop(variables: LiveTopSubscriptionVariables): Live<LiveTopSubscription['top']['nodes']> {
  const { data, ...rest } = useLive(LiveTopDocument, variables);
  return { data: data?.top.nodes, ...rest };
}

/** A member's entry: null while it has none. */
export function useEntry(variables: LiveEntrySubscriptionVariables): Live<LiveEntrySubscription['entry']> {
  const { data, ...rest } = useLive(LiveEntryDocument, variables);
  return { data: data?.entry, ...rest };
}

/** The answer to a query, asked again when `reload` is called or the variables change. */
export interface Asked<Data> {
  data: Data | undefined;
  error: LaurelError | undefined;
  isLoading: boolean;
  reload: () => void;
}

/** Asks a query. */
export function useQuery<Data, Variables>(document: Document<Data, Variables>, variables: Variables): Asked<Data> {
  const client = useLaurel();
  const key = JSON.stringify([document, variables]);
  const [turn, setTurn] = useState(0);
  const [answer, setAnswer] = useState<Omit<Asked<Data>, 'reload'> & { of?: string }>({ data: undefined, error: undefined, isLoading: true });
  useEffect(() => {
    const controller = new AbortController();
    const [text, values] = JSON.parse(key) as [Document<Data, Variables>, Variables];
    setAnswer(last => ({ data: last.of === key ? last.data : undefined, error: undefined, isLoading: true, of: key }));
    client.request(text, values, controller.signal).then(
      data => !controller.signal.aborted && setAnswer({ data, error: undefined, isLoading: false, of: key }),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const known = error instanceof LaurelError ? error : new LaurelError('INTERNAL', String(error), { cause: error });
        setAnswer(last => ({ ...last, error: known, isLoading: false }));
      },
    );
    return () => controller.abort();
  }, [client, key, turn]);
  const reload = useRef(() => setTurn(last => last + 1)).current;
  const shown = answer.of === key ? answer : { data: undefined, error: undefined, isLoading: true };
  return useMemo(() => ({ data: shown.data, error: shown.error, isLoading: shown.isLoading, reload }), [shown.data, shown.error, shown.isLoading, reload]);
}

/** The number of scores that wait in a queue. */
export function useQueueLength(queue: ScoreQueue): number {
  return useSyncExternalStore(
    listener => queue.subscribe(listener),
    () => queue.length,
    () => queue.length,
  );
}
