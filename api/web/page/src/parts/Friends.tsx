// The friends of a member, in the order of their ranks.

import { FriendsDocument } from '../generated';
import { ask, needed } from '../ask';
import { type Board, scoreText } from '../figures';
import { number, say } from '../language';
import { useLoad } from '../load';
import { standingsOf, type Chosen } from '../routes';
import { Person } from './Person';
import { Columns } from './Rows';
import { Nothing, Shown } from './Trouble';

/** How often friends are asked for again, in milliseconds. */
const AGAIN_MS = 15_000;

export function Friends({ board, chosen, member }: { board: Board; chosen: Chosen; member: string }) {
  const of = standingsOf(chosen);
  const { slug } = chosen;
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(FriendsDocument, { slug, of, member }, signal);
    return needed(needed(data.board, problems).standings?.friends, problems);
  }, [slug, of, member], AGAIN_MS);
  return (
    <section class="card" aria-labelledby="friends-title">
      <h2 id="friends-title">{say('friends')}</h2>
      <Shown of={loaded} rows={3} denied={say('friends.denied')}>
        {({ nodes }) =>
          nodes.some(({ isSelf }) => !isSelf) ? (
            <table class="rows">
              <Columns caption={say('friends')} rank={say('rank')} details={false} />
              <tbody>
                {nodes.map(({ id, position, member, entry, isSelf }) => (
                  <tr key={id} class={isSelf ? 'mine' : ''}>
                    <td class="rank">{position === null ? '–' : number(position)}</td>
                    <td><Person member={member} /></td>
                    <td class="score">
                      {entry ? <bdi>{scoreText(entry.score, board)}</bdi> : <span class="note">{say('score.none')}</span>}
                      {entry && <span class="note">{say('place.rank', { rank: entry.rank })}</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Nothing title={say('friends.none')}>
              <p>{say('friends.none.why')}</p>
            </Nothing>
          )
        }
      </Shown>
    </section>
  );
}
