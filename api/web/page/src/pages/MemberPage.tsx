// A member over all boards, with its history on each.

import { useState } from 'preact/hooks';
import { HistoryDocument, MemberDocument, type MemberQuery } from '../generated';
import { ask, needed } from '../ask';
import { scoreText } from '../figures';
import { number, say } from '../language';
import { useLoad } from '../load';
import { History } from '../parts/History';
import { Person, Picture } from '../parts/Person';
import { Share } from '../parts/Share';
import { Nothing, Shown } from '../parts/Trouble';
import { boardAddress } from '../routes';
import { me } from '../token';
import { useTitle } from './title';

type Member = NonNullable<MemberQuery['member']>;
type Edge = NonNullable<Member['boards']>['edges'][number];

/** How often the places are asked for again, in milliseconds. */
const AGAIN_MS = 20_000;

/** The most boards that are shown. */
const PAGES_MAX = 4;

export function MemberPage({ member: key }: { member: string }) {
  const loaded = useLoad(async signal => {
    let after: string | null = null;
    const edges: Edge[] = [];
    for (let page = 0; ; page += 1) {
      const { data, problems } = await ask(MemberDocument, { key, after }, signal);
      const member: Member = needed(data.member, problems);
      edges.push(...(member.boards?.edges ?? []));
      const info = member.boards?.pageInfo;
      after = info?.endCursor ?? null;
      if (!info?.hasNextPage || page + 1 === PAGES_MAX) return { ...member, edges };
    }
  }, [key], AGAIN_MS);
  useTitle(loaded.value?.name ?? key);
  return (
    <>
      {!loaded.value && <h1 class="hidden" tabIndex={-1}>{key}</h1>}
      <Shown of={loaded} rows={8} denied={say('member.denied')}>
        {member => (
          <>
            <div class="masthead">
              <Picture address={member.avatarUrl} name={member.name} of={member.key} />
              <div>
                <h1 tabIndex={-1}><bdi>{member.name}</bdi></h1>
                <p class="note">
                  {member.name !== member.key && <bdi class="key">{member.key}</bdi>}
                  {member.region && <span class="tag"><bdi>{member.region}</bdi></span>}
                  {member.attributes.map(({ name, value }) => (
                    <span key={name} class="tag"><bdi>{name}: {value}</bdi></span>
                  ))}
                </p>
              </div>
              <Share title={member.name} />
            </div>
            {member.mergedInto && (
              <p class="outdated">{say('member.merged')} <Person member={member.mergedInto} /></p>
            )}
            <div class="buttons">
              {me.value === member.key ? (
                <button type="button" onClick={() => (me.value = '')}>{say('me.not', { name: member.name })}</button>
              ) : (
                <button type="button" onClick={() => (me.value = member.key)}>{say('me.this')}</button>
              )}
            </div>
            <h2>{say('member.boards')}</h2>
            {member.edges.length ? (
              <ul class="places">
                {member.edges.map(edge => <li key={edge.node.slug}><OnBoard member={member.key} edge={edge} /></li>)}
              </ul>
            ) : (
              <Nothing title={say('member.none')} />
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function OnBoard({ member, edge: { node: board, entry } }: { member: string; edge: Edge }) {
  const [open, setOpen] = useState(false);
  const address = boardAddress({ slug: board.slug, ...(me.value !== member && { member }) });
  return (
    <article class="card">
      <h3><a href={address}><bdi>{board.title}</bdi></a></h3>
      {entry ? (
        <>
          <p class="figure">
            <strong>{say('place.rank', { rank: entry.rank })}</strong>{' '}
            <span>{say('place.size', { count: entry.standings.size })}</span>
            <bdi class="score">{scoreText(entry.score, board)}</bdi>
          </p>
          <label class="percentile">
            <span>{say('percentile.of', { percent: number(entry.percentile / 100, { style: 'percent', maximumFractionDigits: 1 }) })}</span>
            <progress max={100} value={entry.percentile} />
          </label>
        </>
      ) : (
        <p class="note">{say('board.away')}</p>
      )}
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>{say('history')}</button>
      {open && <OwnHistory member={member} board={board} />}
    </article>
  );
}

function OwnHistory({ member: key, board }: { member: string; board: Edge['node'] }) {
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(HistoryDocument, { key, board: board.slug }, signal);
    return needed(needed(data.member, problems).events, problems);
  }, [key, board.slug]);
  return (
    <Shown of={loaded} rows={4} denied={say('history.denied')}>
      {events => <History events={events} scored={board} />}
    </Shown>
  );
}
