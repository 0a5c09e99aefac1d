// The boards: a list to find them in, and a form for a new one.

import { ask, needed } from '../../ask';
import { number, say } from '../../language';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { SearchField } from '../../parts/SearchField';
import { Nothing, Shown } from '../../parts/Trouble';
import { act } from '../acts';
import { BoardsDocument, CreateBoardDocument, type CreateBoardInput } from '../generated';
import { Check, Choice, Form, type Filled, Text } from '../parts/Form';
import { Turn, usePages } from '../parts/Turn';
import { address, go } from '../routes';
import { may } from '../viewer';
import { named, tell } from '../words';

/** The windows that a new board is offered. */
const OFFERED = ['daily', 'weekly', 'monthly', 'season'];

/** The patterns of a slug and of tags, as the schema has them. */
const SLUG = '[a-z0-9][a-z0-9_\\-]{0,63}';

export function BoardsPage({ query }: { query: string }) {
  useTitle(tell('section.boards'));
  const pages = usePages(query);
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(BoardsDocument, { query: query || null, after: pages.after }, signal);
    return needed(data.boards, problems);
  }, [query, pages.after]);
  return (
    <>
      <h1 tabIndex={-1}>{tell('section.boards')}</h1>
      {may('ADMIN') && <NewBoard />}
      <SearchField
        label={say('boards.find')}
        sought={query}
        maxLength={100}
        find={query => go(address('boards', '', query ? { query } : {}), { replace: true })}
      />
      <Shown of={loaded} rows={6}>
        {({ nodes, totalCount, pageInfo }) => (
          <>
            <p class="note" role="status">{say('boards.count', { count: totalCount })}</p>
            {nodes.length ? (
              <ul class="entries">
                {nodes.map(({ slug, title, visibility, tags, windows }) => (
                  <li key={slug} class="card">
                    <a href={address('boards', slug)}><bdi>{title}</bdi></a>
                    <p class="note">
                      <bdi>{slug}</bdi> · {tell('windows.count', { count: windows.length })}
                      {visibility === 'PRIVATE' && <span class="tag">{named('visibility', visibility)}</span>}
                      {tags.map(tag => <span key={tag} class="tag"><bdi>{tag}</bdi></span>)}
                    </p>
                  </li>
                ))}
              </ul>
            ) : (
              <Nothing title={say(query ? 'boards.unfound' : 'boards.none')} />
            )}
            <Turn pages={pages} info={pageInfo} />
          </>
        )}
      </Shown>
    </>
  );
}

const choices = (kind: string, values: readonly string[]) => values.map(value => [value, named(kind, value)] as const);

async function create(filled: Filled): Promise<string> {
  const slug = filled.text('slug');
  const windows = [...filled.all<string>('window'), ...filled.words('others')];
  const given = <K extends keyof CreateBoardInput>(name: K, value: CreateBoardInput[K] | null) => (value === null ? {} : { [name]: value });
  const input: CreateBoardInput = {
    slug,
    ...given('title', filled.some('title')),
    ...given('description', filled.some('description')),
    tags: filled.words('tags'),
    windows: windows.map(name => ({ name })),
    visibility: filled.text('visibility') as 'PUBLIC',
    policy: filled.text('policy') as 'SUM',
    direction: filled.text('direction') as 'HIGH_FIRST',
    tieBreak: filled.text('tieBreak') as 'EARLIEST',
    ...given('decimals', filled.number('decimals')),
    ...given('minScore', filled.some('minScore')),
    ...given('maxScore', filled.some('maxScore')),
    ...given('timeZone', filled.some('timeZone')),
  };
  await act(CreateBoardDocument, { input }, data => data.createBoard);
  go(address('boards', slug));
  return tell('board.created', { board: slug });
}

function NewBoard() {
  return (
    <details class="card">
      <summary><h2>{tell('board.new')}</h2></summary>
      <Form verb={tell('board.create')} act={create}>
        <div class="fields">
          <Text name="slug" label={tell('board.slug')} hint={tell('board.slug.hint')} required pattern={SLUG} />
          <Text name="title" label={tell('board.title')} />
          <Text name="tags" label={tell('board.tags')} hint={tell('board.tags.hint')} />
          <Choice name="visibility" label={tell('board.visibility')} options={choices('visibility', ['PUBLIC', 'PRIVATE'])} />
        </div>
        <Text name="description" label={tell('board.description')} long maxLength={500} />
        <fieldset>
          <legend>{tell('windows')}</legend>
          <p class="note">{tell('windows.all')}</p>
          <div class="checks">
            {OFFERED.map(name => <Check key={name} name="window" value={name} label={name} />)}
          </div>
          <Text name="others" label={tell('windows.others')} hint={tell('windows.others.hint')} />
        </fieldset>
        <fieldset>
          <legend>{tell('board.rules')}</legend>
          <p class="note">{tell('board.rules.hint')}</p>
          <div class="fields">
            <Choice name="policy" label={tell('board.policy')} options={choices('policy', ['SUM', 'BEST', 'LATEST'])} />
            <Choice name="direction" label={tell('board.direction')} options={choices('direction', ['HIGH_FIRST', 'LOW_FIRST'])} />
            <Choice name="tieBreak" label={tell('board.tieBreak')} options={choices('tieBreak', ['EARLIEST', 'LATEST', 'MEMBER'])} />
            <Text name="decimals" label={tell('board.decimals')} type="number" min={0} max={9} value="0" />
            <Text name="minScore" label={tell('board.minScore')} hint={tell('board.default', { value: '0' })} />
            <Text name="maxScore" label={tell('board.maxScore')} hint={tell('board.default', { value: number(999999999) })} />
            <Text name="timeZone" label={tell('board.timeZone')} hint={tell('board.timeZone.hint')} />
          </div>
        </fieldset>
      </Form>
    </details>
  );
}
