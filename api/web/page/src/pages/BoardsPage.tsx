// All boards, each with its leaders.

import { useEffect, useState } from 'preact/hooks';
import { type BoardsQuery, BoardsDocument } from '../generated';
import { ask, needed } from '../ask';
import { scoreText } from '../figures';
import { number, say } from '../language';
import { useLoad } from '../load';
import { Person, Picture } from '../parts/Person';
import { SearchField } from '../parts/SearchField';
import { Nothing, Shown } from '../parts/Trouble';
import { boardAddress, go } from '../routes';
import { mayLoad } from '../settings';
import { useTitle } from './title';

/** How often the leaders are asked for again, in milliseconds. */
const AGAIN_MS = 10_000;

type Boards = NonNullable<BoardsQuery['boards']>;
type Board = Boards['nodes'][number];

export function BoardsPage({ query }: { query: string }) {
  useTitle(say('boards'));
  const [pages, setPages] = useState<(string | null)[]>([null]);
  useEffect(() => setPages([null]), [query]);
  const loaded = useLoad(async signal => {
    const all: Boards[] = [];
    for (const after of pages) {
      const { data, problems } = await ask(BoardsDocument, { query: query || null, after }, signal);
      all.push(needed(data.boards, problems));
    }
    const last = all.at(-1)!;
    return { boards: all.flatMap(({ nodes }) => nodes), total: last.totalCount, next: last.pageInfo.hasNextPage ? last.pageInfo.endCursor : null };
  }, [query, pages.length], AGAIN_MS);
  return (
    <>
      <h1 tabIndex={-1}>{say('boards')}</h1>
      <SearchField
        label={say('boards.find')}
        sought={query}
        maxLength={100}
        find={query => go(`/${query && `?query=${encodeURIComponent(query)}`}`, { replace: true })}
      />
      <Shown of={loaded} rows={8} denied={say('boards.denied')}>
        {({ boards, next, total }) =>
          boards.length ? (
            <>
              <p class="hidden" role="status">{say('boards.count', { count: total })}</p>
              <ul class="boards">
                {boards.map(board => <li key={board.slug}><Card board={board} /></li>)}
              </ul>
              {next && (
                <div class="buttons">
                  <button type="button" onClick={() => setPages([...pages, next])}>{say('boards.more')}</button>
                </div>
              )}
            </>
          ) : (
            <Nothing title={say(query ? 'boards.unfound' : 'boards.none')}>
              <p>{say(query ? 'boards.unfound.why' : 'boards.none.why')}</p>
            </Nothing>
          )
        }
      </Shown>
    </>
  );
}

function Card({ board }: { board: Board }) {
  const { slug, title, description, iconUrl, tags, standings } = board;
  const leaders = standings?.top?.nodes ?? [];
  return (
    <article class="card board">
      <h2>
        {mayLoad(iconUrl) && <Picture address={iconUrl} name={title} of={slug} />}
        <a href={boardAddress({ slug })}><bdi>{title}</bdi></a>
      </h2>
      {description && <p class="description"><bdi>{description}</bdi></p>}
      {leaders.length ? (
        <ol class="leaders">
          {leaders.map(row => (
            <li key={row.id}>
              <span class={`rank medal medal${row.rank}`}>{number(row.rank)}</span>
              <Person member={row.member} />
              <bdi class="score">{scoreText(row.score, board)}</bdi>
            </li>
          ))}
        </ol>
      ) : (
        <p class="note">{say(standings ? 'list.none' : 'board.away')}</p>
      )}
      <p class="note foot">
        {standings && <span>{say('members', { count: standings.size })}</span>}
        {tags.map(tag => <span key={tag} class="tag">{tag}</span>)}
      </p>
    </article>
  );
}
