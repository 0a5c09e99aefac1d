// The gate: the office opens to a token of scope moderate or admin, and says why to no other.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { ask } from '../ask';
import { say } from '../language';
import { useLoad } from '../load';
import { Skeleton, Trouble } from '../parts/Trouble';
import { token } from '../token';
import { ViewerDocument } from './generated';
import { told } from './acts';
import { scopes } from './viewer';
import { named, tell } from './words';

export function Gate({ children }: { children: ComponentChildren }) {
  const loaded = useLoad(async signal => {
    if (!token.peek()) return [];
    const { data } = await ask(ViewerDocument, {}, signal);
    return data.viewer?.scopes ?? [];
  }, []);
  const { value, problem, stale } = loaded;
  const mine = stale ? undefined : value;
  const opens = mine?.includes('MODERATE') ?? false;
  useEffect(() => {
    scopes.value = opens && mine ? mine : [];
    told.value = '';
  }, [opens, mine]);
  if (opens) return scopes.value.length ? <>{children}</> : null;
  if (!token.value) return <Entrance />;
  if (problem && problem.cause !== 'token') return <Trouble problem={problem} again={loaded.again} />;
  if (problem) return <Entrance title={tell('gate.wrong')} why={tell('gate.wrong.why')} said={problem.message} />;
  if (!mine) return <Skeleton />;
  const list = mine.map(scope => named('scope', scope)).join(', ');
  return <Entrance title={tell('gate.small')} why={tell('gate.small.why', { scopes: list })} />;
}

function Entrance({ title, why, said }: { title?: string; why?: string; said?: string }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <section class="card entrance">
      <h1 tabIndex={-1}>{tell('office')}</h1>
      <div role="alert">
        {title && (
          <div class="refusal">
            <p><strong>{title}</strong></p>
            <p>{why}</p>
            {said && <p class="note" lang="en" dir="ltr">{said}</p>}
          </div>
        )}
      </div>
      <form
        onSubmit={event => {
          event.preventDefault();
          token.value = field.current?.value.trim() ?? '';
        }}
      >
        <p>{tell('token.why')}</p>
        <label class="field">
          {say('token')}
          <input ref={field} type="password" required autocomplete="off" spellcheck={false} dir="ltr" />
        </label>
        <p class="note">{say('token.kept')}</p>
        <div class="buttons">
          <button class="strong" type="submit">{tell('gate.enter')}</button>
          {token.value && <button type="button" onClick={() => (token.value = '')}>{say('token.forget')}</button>}
        </div>
      </form>
    </section>
  );
}
