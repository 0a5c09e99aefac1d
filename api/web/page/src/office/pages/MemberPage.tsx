// A member: its boards and events, its bans, and the acts that end it: a merge or an erasure.

import { ask } from '../../ask';
import { say } from '../../language';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing, Shown } from '../../parts/Trouble';
import { MemberDocument, type MemberQuery } from '../generated';
import { Bans } from '../parts/Bans';
import { Events } from '../parts/Events';
import { Facts, When, Who } from '../parts/Facts';
import { Erase, Merge } from '../parts/Farewells';
import { Turn, usePages } from '../parts/Turn';
import { address, go } from '../routes';
import { may } from '../viewer';
import { named, tell } from '../words';

type Member = NonNullable<MemberQuery['member']>;
type Boards = NonNullable<Member['boards']>;

export function MemberPage({ member: key, board }: { member: string; board: string }) {
  const pages = usePages(key);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(MemberDocument, { key, after: pages.after }, signal);
    // One that is not known may be banned as well.
    if (!data.member && problems[0]) throw problems[0];
    return { member: data.member ?? null };
  }, [key, pages.after]);
  const member = loaded.value?.member;
  useTitle(member?.name ?? key);
  return (
    <>
      <p><a href={address('members')}>{tell('section.members')}</a></p>
      <h1 tabIndex={-1}><bdi>{member?.name ?? key}</bdi></h1>
      <Shown of={loaded} rows={6}>
        {({ member }) => (
          <>
            <section class="card">{member ? <Profile member={member} /> : <p>{tell('member.unknown')}</p>}</section>
            {member?.boards && (
              <section class="card">
                <h2>{say('member.boards')}</h2>
                <Places of={member.boards} member={key} />
                <Turn pages={pages} info={member.boards.pageInfo} />
              </section>
            )}
            {member && <Events key={board} member={key} board={board} boards={member.boards?.edges.map(({ node }) => node.slug) ?? []} again={loaded.again} />}
            <Bans member={key} bans={member?.bans ?? []} again={loaded.again} />
            {may('ADMIN') && member && !member.mergedInto && <Merge member={key} again={loaded.again} />}
            {may('ADMIN') && <Erase member={key} />}
          </>
        )}
      </Shown>
    </>
  );
}

function Profile({ member: { key, region, visibility, createdAt, mergedInto } }: { member: Member }) {
  return (
    <>
      <Facts
        of={[
          [tell('member.key'), key],
          [tell('member.region'), region],
          [tell('member.visibility'), named('seen', visibility)],
          [tell('created'), createdAt && <When at={createdAt} />],
        ]}
      />
      {mergedInto && <p class="outdated">{say('member.merged')} <Who of={mergedInto} /></p>}
    </>
  );
}

function Places({ of, member }: { of: Boards; member: string }) {
  if (!of.edges.length) return <Nothing title={say('member.none')} />;
  return (
    <ul class="rows-of-fields">
      {of.edges.map(({ node: { slug, title }, entry }) => (
        <li key={slug}>
          <div>
            <a href={address('boards', slug)}><bdi>{title}</bdi></a>
            <p class="note">{entry ? <>{say('place.rank', { rank: entry.rank })} · <bdi>{entry.formattedScore}</bdi></> : say('board.away')}</p>
          </div>
          <button type="button" aria-label={tell('events.of', { board: title })} onClick={() => go(address('members', member, { board: slug }), { replace: true })}>{tell('events')}</button>
        </li>
      ))}
    </ul>
  );
}
