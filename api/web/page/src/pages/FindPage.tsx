// Finding a member by the start of its key or name.

import { FindDocument } from '../generated';
import { ask } from '../ask';
import { say } from '../language';
import { useLoad } from '../load';
import { Person } from '../parts/Person';
import { SearchField } from '../parts/SearchField';
import { Nothing, Shown, Trouble } from '../parts/Trouble';
import { go } from '../routes';
import { useTitle } from './title';

export function FindPage({ prefix }: { prefix: string }) {
  useTitle(say('find'));
  return (
    <>
      <h1 tabIndex={-1}>{say('find')}</h1>
      <SearchField
        label={say('find.label')}
        sought={prefix}
        maxLength={64}
        autocomplete="off"
        spellcheck={false}
        find={find => go(`/members${find && `?find=${encodeURIComponent(find)}`}`, { replace: true })}
      />
      {prefix ? <Found prefix={prefix} /> : <Nothing title={say('find.empty')} />}
    </>
  );
}

function Found({ prefix }: { prefix: string }) {
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(FindDocument, { prefix }, signal);
    const found = data.searchMembers?.nodes ?? [];
    const exact = data.member && found.every(({ key }) => key !== data.member!.key) ? [data.member] : [];
    return { members: [...exact, ...found], problem: data.searchMembers ? undefined : problems[0] };
  }, [prefix]);
  return (
    <Shown of={loaded} rows={4}>
      {({ members, problem }) => (
        <>
          {members.length > 0 && (
            <ul class="people">
              {members.map(member => (
                <li key={member.key} class="card">
                  <Person member={member} />
                  {member.region && <span class="tag"><bdi>{member.region}</bdi></span>}
                </li>
              ))}
            </ul>
          )}
          {problem && <Trouble problem={problem} again={loaded.again} denied={say('find.denied')} />}
          {!problem && !members.length && (
            <Nothing title={say('find.none', { prefix })}>
              <p>{say('find.none.why')}</p>
            </Nothing>
          )}
        </>
      )}
    </Shown>
  );
}
