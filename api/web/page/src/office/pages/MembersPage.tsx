// The members: found by the start of a key or a name.

import { ask } from '../../ask';
import { say } from '../../language';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { SearchField } from '../../parts/SearchField';
import { Nothing, Shown, Trouble } from '../../parts/Trouble';
import { FindMembersDocument } from '../generated';
import { Who } from '../parts/Facts';
import { Turn, usePages } from '../parts/Turn';
import { address, go } from '../routes';
import { tell } from '../words';

export function MembersPage({ prefix }: { prefix: string }) {
  useTitle(tell('section.members'));
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.members')}</h1>
      <SearchField
        label={say('find.label')}
        sought={prefix}
        maxLength={128}
        autocomplete="off"
        spellcheck={false}
        find={find => go(address('members', '', find ? { find } : {}), { replace: true })}
      />
      {prefix ? <Found prefix={prefix} /> : <Nothing title={say('find.empty')} />}
    </>
  );
}

function Found({ prefix }: { prefix: string }) {
  const pages = usePages(prefix);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(FindMembersDocument, { prefix, after: pages.after }, signal);
    const found = data.searchMembers?.nodes ?? [];
    const exact = data.member && !pages.after && found.every(({ key }) => key !== data.member!.key) ? [data.member] : [];
    return { members: [...exact, ...found], info: data.searchMembers?.pageInfo, problem: data.searchMembers ? undefined : problems[0] };
  }, [prefix, pages.after]);
  return (
    <Shown of={loaded} rows={4}>
      {({ members, info, problem }) => (
        <>
          {problem && <Trouble problem={problem} again={loaded.again} />}
          {members.length > 0 && (
            <ul class="people">
              {members.map(member => (
                <li key={member.key} class="card">
                  <Who of={member} />
                  {member.region && <span class="tag"><bdi>{member.region}</bdi></span>}
                </li>
              ))}
            </ul>
          )}
          {!problem && !members.length && (
            <Nothing title={say('find.none', { prefix })}>
              <p>{tell('members.any')}</p>
              <p><a href={address('members', prefix)}>{tell('members.open', { member: prefix })}</a></p>
            </Nothing>
          )}
          {info && <Turn pages={pages} info={info} />}
        </>
      )}
    </Shown>
  );
}
