// The access tokens: a new one is shown once, and each can be revoked.

import { useState } from 'preact/hooks';
import { ask, needed } from '../../ask';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing } from '../../parts/Trouble';
import { act, askFirst } from '../acts';
import { CreateTokenDocument, RevokeTokenDocument, TokensDocument, type TokensQuery } from '../generated';
import { Facts, When, Who } from '../parts/Facts';
import { Check, type Filled, Form, Text } from '../parts/Form';
import { Listed, usePages } from '../parts/Turn';
import type { Scope } from '../viewer';
import { named, tell } from '../words';

type Token = NonNullable<TokensQuery['accessTokens']>['nodes'][number];

const SCOPES: readonly Scope[] = ['READ', 'SUBMIT', 'FRIENDS', 'MODERATE', 'ADMIN'];
const DAY_SECONDS = 86_400;

export function TokensPage() {
  useTitle(tell('section.tokens'));
  const [secret, setSecret] = useState('');
  const pages = usePages('');
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(TokensDocument, { after: pages.after }, signal);
    return needed(data.accessTokens, problems);
  }, [pages.after]);
  const create = async (filled: Filled) => {
    const days = filled.number('days');
    const boards = filled.words('boards');
    const input = {
      scopes: filled.all<Scope>('scope'),
      name: filled.some('token name'),
      member: filled.some('member'),
      ...(boards.length && { boards }),
      ...(days !== null && { lifetimeSeconds: Math.round(days * DAY_SECONDS) }),
    };
    const { token } = await act(CreateTokenDocument, { input }, data => data.createAccessToken);
    setSecret(token);
    loaded.again();
    return tell('token.created');
  };
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.tokens')}</h1>
      {secret && <Secret secret={secret} done={() => setSecret('')} />}
      <details class="card">
        <summary><h2>{tell('token.new')}</h2></summary>
        <Form verb={tell('token.create')} act={create} clears>
          <fieldset>
            <legend>{tell('token.scopes')}</legend>
            <div class="checks">
              {SCOPES.map(scope => <Check key={scope} name="scope" value={scope} label={named('scope', scope)} />)}
            </div>
          </fieldset>
          <div class="fields">
            <Text name="token name" label={tell('name')} hint={tell('token.name.hint')} maxLength={200} />
            <Text name="days" label={tell('token.days')} hint={tell('token.days.hint')} type="number" min={1} max={3650} />
            <Text name="member" label={tell('token.member')} hint={tell('token.member.hint')} maxLength={128} />
            <Text name="boards" label={tell('token.boards')} hint={tell('token.boards.hint')} />
          </div>
        </Form>
      </details>
      <Listed of={loaded} rows={6} pages={pages} look="entries wide" none={<Nothing title={tell('tokens.none')} />}>
        {token => <li key={token.id} class={`card ${token.revokedAt ? 'goes' : ''}`}><OneToken token={token} again={loaded.again} /></li>}
      </Listed>
    </>
  );
}

function Secret({ secret, done }: { secret: string; done: () => void }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(secret);
      setCopied(true);
    } catch {
      // The browser has no clipboard for a page without TLS: the text can be chosen by hand.
    }
  };
  return (
    <section class="card new" aria-labelledby="secret-title">
      <h2 id="secret-title">{tell('token.once')}</h2>
      <p>{tell('token.once.why')}</p>
      <textarea readOnly rows={2} dir="ltr" aria-label={tell('token.once')} value={secret} onFocus={event => event.currentTarget.select()} />
      <div class="buttons">
        <button class="strong" type="button" onClick={copy}>{tell('copy')}</button>
        <button type="button" onClick={done}>{tell('token.hide')}</button>
        <span class="note" role="status">{copied && tell('copied')}</span>
      </div>
    </section>
  );
}

function OneToken({ token, again }: { token: Token; again: () => void }) {
  const { id, name, scopes, member, boardIds, createdAt, expiresAt, lastUsedAt, revokedAt } = token;
  const label = name ?? id.replace('accessToken:', '');
  const revoke = () =>
    askFirst({
      title: tell('token.revoke.of', { token: label }),
      text: tell('token.revoke.why'),
      verb: tell('token.revoke'),
      run: async () => {
        await act(RevokeTokenDocument, { id }, data => data.revokeAccessToken);
        again();
        return tell('token.revoked', { token: label });
      },
    });
  return (
    <>
      <div class="title">
        <h2><bdi>{label}</bdi></h2>
        {!revokedAt && <button type="button" aria-label={tell('token.revoke.of', { token: label })} onClick={revoke}>{tell('token.revoke')}</button>}
      </div>
      <Facts
        of={[
          [tell('token.id'), id.replace('accessToken:', '')],
          [tell('token.scopes'), scopes.map(scope => named('scope', scope)).join(', ')],
          [tell('token.member'), member && <Who of={member} />],
          [tell('token.boards'), boardIds?.map(id => id.replace(/^board:|\.\d+$/g, '')).join(', ')],
          [tell('created'), <When key="created" at={createdAt} />],
          [tell('token.expires'), expiresAt ? <When key="expires" at={expiresAt} /> : tell('token.never.expires')],
          [tell('token.used'), lastUsedAt ? <When key="used" at={lastUsedAt} /> : tell('token.never.used')],
          [tell('token.ended'), revokedAt && <When key="revoked" at={revokedAt} />],
        ]}
      />
    </>
  );
}
