// States in which there is nothing to show, and what can be done about it.

import type { ComponentChildren } from 'preact';
import type { Loaded } from '../load';
import type { Problem } from '../ask';
import { type Key, say } from '../language';
import { route } from '../routes';
import { token, tokenIsAsked } from '../token';

/** A state with nothing to show. */
export function Nothing({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="nothing">
      <p class="title">{title}</p>
      {children}
    </div>
  );
}

/** A problem, explained. `denied` says why a token is needed here. */
export function Trouble({ problem, again, denied }: { problem: Problem; again?: () => void; denied?: string }) {
  const { cause, message } = problem;
  const isOfToken = cause === 'denied' || cause === 'token';
  // No token is entered in a frame of another page.
  const isFramed = route.value.page === 'embed';
  const why = cause === 'denied' && denied ? denied : say(`trouble.${cause}.why` as Key);
  return (
    <div class="nothing trouble" role="status">
      <p class="title">{say(`trouble.${cause}` as Key)}</p>
      <p>{why}</p>
      {message && (cause === 'failed' || cause === 'token') && (
        <p class="note" lang="en" dir="ltr">{message}</p>
      )}
      <div class="buttons">
        {isOfToken && !isFramed && (
          <button class="strong" type="button" onClick={() => (tokenIsAsked.value = true)}>
            {token.value ? say('token.other') : say('token.enter')}
          </button>
        )}
        {cause === 'token' && (
          <button type="button" onClick={() => (token.value = '')}>{say('token.forget')}</button>
        )}
        {again && !isOfToken && <button type="button" onClick={again}>{say('again')}</button>}
      </div>
    </div>
  );
}

/** Rows of a list that is on its way. */
export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div class="skeletons" role="status">
      <span class="hidden">{say('loading')}</span>
      {Array.from({ length: rows }, (_, row) => <div key={row} class="skeleton" />)}
    </div>
  );
}

/** What is loaded, or why it is not; an old answer stays with a word about it. */
export function Shown<T>({ of, rows, denied, children }: {
  of: Loaded<T>;
  rows?: number;
  denied?: string;
  children: (value: T) => ComponentChildren;
}) {
  const { value, problem, stale, again } = of;
  if (value === undefined) {
    if (problem) return <Trouble problem={problem} again={again} {...(denied && { denied })} />;
    return <Skeleton {...(rows && { rows })} />;
  }
  return (
    <div class={stale ? 'stale' : ''} aria-busy={stale}>
      {problem && <Outdated problem={problem} />}
      {children(value)}
    </div>
  );
}

function Outdated({ problem }: { problem: Problem }) {
  return (
    <p class="outdated" role="status">
      {say(problem.cause === 'offline' ? 'outdated.offline' : 'outdated')}
    </p>
  );
}
