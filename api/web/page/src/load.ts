// Loading: a question that is asked again when what it depends on changes, when it is old, and when it failed for a while.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Problem } from './ask';
import { token } from './token';

/** The longest pause before a question that failed is asked again, in milliseconds. */
const PAUSE_MAX_MS = 30_000;

export interface Loaded<T> {
  /** The last answer. */
  value: T | undefined;
  /** The time of the answer. */
  at: number;
  /** True if the answer is to an earlier question. */
  stale: boolean;
  /** The reason why there is no newer answer. */
  problem: Problem | undefined;
  /** Asks again. */
  again: () => void;
}

interface State<T> {
  key: string;
  value?: T | undefined;
  at: number;
  problem?: Problem | undefined;
}

/** Asks, and asks again every so many milliseconds, while the page is seen; 0 for once. */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  dependencies: readonly unknown[],
  everyMs = 0,
): Loaded<T> {
  const key = JSON.stringify([dependencies, token.value]);
  const [state, setState] = useState<State<T>>({ key, at: 0 });
  const [turn, setTurn] = useState(0);
  const again = useCallback(() => setTurn(turn => turn + 1), []);
  const pace = useRef(everyMs);
  useEffect(() => {
    if (everyMs && everyMs < pace.current) again();
    pace.current = everyMs;
  }, [everyMs]);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let failures = 0;
    let due = false;
    const wait = (ms: number) => {
      timer = window.setTimeout(() => (document.hidden ? (due = true) : run()), ms);
    };
    const run = async () => {
      window.clearTimeout(timer);
      due = false;
      try {
        const value = await load(stop.signal);
        failures = 0;
        if (!stop.signal.aborted) setState({ key, value, at: Date.now() });
        if (pace.current) wait(pace.current);
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem('failed', String(error));
        setState(old => ({ key, at: old.at, problem, value: old.key === key ? old.value : undefined }));
        failures += 1;
        if (problem.passes) wait(Math.min(PAUSE_MAX_MS, 1_000 * 2 ** failures));
        else if (pace.current) wait(PAUSE_MAX_MS);
      }
    };
    const wake = () => due && !document.hidden && run();
    const reconnect = () => failures && run();
    document.addEventListener('visibilitychange', wake);
    window.addEventListener('online', reconnect);
    run();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      document.removeEventListener('visibilitychange', wake);
      window.removeEventListener('online', reconnect);
    };
  }, [key, turn]);
  const { value, at, problem } = state;
  return { value, at, stale: state.key !== key, problem: state.key === key ? problem : undefined, again };
}
