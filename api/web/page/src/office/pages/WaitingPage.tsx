// What waits for a moderator: the boards with open reports or with scores in quarantine.

import { ask, needed } from '../../ask';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing, Shown } from '../../parts/Trouble';
import { WaitingDocument, type WaitingQuery } from '../generated';
import { address } from '../routes';
import { tell } from '../words';

type Boards = NonNullable<WaitingQuery['boards']>;
type Board = Boards['nodes'][number];

/** How often it is asked for again, in milliseconds. */
const AGAIN_MS = 15_000;

/** The most pages of boards that are looked at: 500 boards. */
const PAGES_MAX = 20;

export function WaitingPage() {
  useTitle(tell('section.waiting'));
  const loaded = useLoad(async signal => {
    const waiting: Board[] = [];
    let after: string | null = null;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const { data, problems } = await ask(WaitingDocument, { after }, signal);
      const boards: Boards = needed(data.boards, problems);
      waiting.push(...boards.nodes.filter(({ reports, quarantine }) => reports?.nodes.length || quarantine?.nodes.length));
      after = boards.pageInfo.endCursor;
      if (!boards.pageInfo.hasNextPage) return { waiting, all: true };
    }
    return { waiting, all: false };
  }, [], AGAIN_MS);
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.waiting')}</h1>
      <Shown of={loaded} rows={4}>
        {({ waiting, all }) => (
          <>
            {waiting.length ? (
              <ul class="entries">
                {waiting.map(({ slug, title, reports, quarantine }) => (
                  <li key={slug} class="card">
                    <a href={address('boards', slug)}><bdi>{title}</bdi></a>
                    <p>
                      {Boolean(reports?.nodes.length) && <span class="tag">{tell('reports')}</span>}
                      {Boolean(quarantine?.nodes.length) && <span class="tag">{tell('quarantine')}</span>}
                    </p>
                  </li>
                ))}
              </ul>
            ) : (
              <Nothing title={tell('waiting.none')} />
            )}
            {!all && <p class="note">{tell('waiting.more')}</p>}
          </>
        )}
      </Shown>
    </>
  );
}
