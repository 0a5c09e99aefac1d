// A board: its display, its windows and seasons, what waits for a moderator, and its end.

import { useState } from 'preact/hooks';
import { ask, needed } from '../../ask';
import { useLoad } from '../../load';
import { useTitle } from '../../pages/title';
import { Nothing, Shown } from '../../parts/Trouble';
import { act, askFirst } from '../acts';
import { AddSeasonDocument, BoardDocument, type BoardQuery, DeleteBoardDocument, RemoveSeasonDocument, UpdateBoardDocument } from '../generated';
import { Facts, utc, When } from '../parts/Facts';
import { Choice, type Filled, Form, Text } from '../parts/Form';
import { Quarantine } from '../parts/Quarantine';
import { Reports } from '../parts/Reports';
import { address, go } from '../routes';
import { may } from '../viewer';
import { named, tell } from '../words';

type Board = NonNullable<BoardQuery['board']>;

/** How often the board is asked for again, as windows fill, in milliseconds. */
const AGAIN_MS = 10_000;

export function BoardPage({ slug }: { slug: string }) {
  const loaded = useLoad(async signal => {
    const { data, problems } = await ask(BoardDocument, { slug }, signal);
    return needed(data.board, problems);
  }, [slug], AGAIN_MS);
  useTitle(loaded.value?.title ?? slug);
  return (
    <>
      <p><a href={address('boards')}>{tell('section.boards')}</a></p>
      <h1 tabIndex={-1}><bdi>{loaded.value?.title ?? slug}</bdi></h1>
      <Shown of={loaded} rows={6}>
        {board => (
          <>
            <section class="card">
              <Facts
                of={[
                  [tell('board.slug'), board.slug],
                  [tell('board.visibility'), named('visibility', board.visibility)],
                  [tell('board.policy'), named('policy', board.policy)],
                  [tell('board.direction'), named('direction', board.direction)],
                  [tell('board.tieBreak'), named('tieBreak', board.tieBreak)],
                  [tell('board.range'), `${board.minScore} – ${board.maxScore}`],
                  [tell('board.timeZone'), board.timeZone],
                  [tell('created'), <When key="at" at={board.createdAt} />],
                ]}
              />
              <p><a href={`/boards/${encodeURIComponent(slug)}`}>{tell('board.look')}</a></p>
            </section>
            <Reports slug={slug} />
            <Quarantine slug={slug} />
            {may('ADMIN') && (
              <>
                <Display key={`display ${slug}`} board={board} again={loaded.again} />
                <Windows key={JSON.stringify(board.windows.map(({ name }) => name))} board={board} again={loaded.again} />
                {board.windows.some(({ name }) => name === 'season') && <Seasons board={board} again={loaded.again} />}
                <End board={board} />
              </>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

interface Of {
  board: Board;
  again: () => void;
}

function Display({ board, again }: Of) {
  const save = async (filled: Filled) => {
    const input = {
      slug: board.slug,
      title: filled.text('title'),
      description: filled.some('description'),
      tags: filled.words('tags'),
      visibility: filled.text('visibility') as Board['visibility'],
    };
    await act(UpdateBoardDocument, { input }, data => data.updateBoard);
    again();
    return tell('saved');
  };
  return (
    <section class="card">
      <h2>{tell('board.display')}</h2>
      <Form verb={tell('save')} act={save}>
        <div class="fields">
          <Text name="title" label={tell('board.title')} value={board.title} required />
          <Text name="tags" label={tell('board.tags')} hint={tell('board.tags.hint')} value={board.tags.join(', ')} />
          <Choice
            name="visibility"
            label={tell('board.visibility')}
            value={board.visibility}
            options={(['PUBLIC', 'PRIVATE'] as const).map(value => [value, named('visibility', value)])}
          />
        </div>
        <Text name="description" label={tell('board.description')} value={board.description ?? ''} long maxLength={500} />
      </Form>
    </section>
  );
}

function Windows({ board, again }: Of) {
  const there = board.windows.filter(({ name }) => name !== 'all');
  const [dropped, setDropped] = useState<readonly string[]>([]);
  const save = (filled: Filled) => {
    const kept = there.filter(({ name }) => !dropped.includes(name));
    // A number that was not changed is not sent: another may have changed it meanwhile.
    const changed = ({ name, retain }: (typeof there)[number]) => {
      const asked = filled.number(`retain ${name}`);
      return asked === null || asked === retain ? { name } : { name, retain: asked };
    };
    const windows = [...kept.map(changed), ...filled.words('added').map(name => ({ name }))];
    const run = async () => {
      await act(UpdateBoardDocument, { input: { slug: board.slug, windows } }, data => data.updateBoard);
      setDropped([]);
      again();
      return tell('saved');
    };
    if (!dropped.length) return run();
    askFirst({ title: tell('windows.drop'), text: tell('windows.drop.why', { windows: dropped.join(', ') }), verb: tell('windows.drop'), run });
  };
  return (
    <section class="card">
      <h2>{tell('windows')}</h2>
      <p class="note">{tell('windows.all')}</p>
      <Form verb={tell('windows.save')} act={save}>
        <ul class="rows-of-fields">
          {there.map(({ name, retain, ready, attemptsMax }) => {
            const goes = dropped.includes(name);
            return (
              <li key={name} class={goes ? 'goes' : ''}>
                <div>
                  <strong><bdi>{name}</bdi></strong>
                  <p class="note">
                    {tell(ready ? 'windows.ready' : 'windows.filling')}
                    {attemptsMax !== null && ` · ${tell('windows.attempts', { count: attemptsMax })}`}
                  </p>
                </div>
                <Text name={`retain ${name}`} label={tell('windows.retain', { window: name })} type="number" min={0} max={1_000_000} value={String(retain)} />
                <button type="button" aria-pressed={goes} onClick={() => setDropped(goes ? dropped.filter(other => other !== name) : [...dropped, name])}>
                  {tell(goes ? 'windows.keep' : 'windows.drop.one', { window: name })}
                </button>
              </li>
            );
          })}
        </ul>
        <Text name="added" label={tell('windows.add')} hint={tell('windows.others.hint')} />
      </Form>
    </section>
  );
}

function Seasons({ board, again }: Of) {
  const add = async (filled: Filled) => {
    const name = filled.text('name');
    const input = { board: board.slug, name, startsAt: filled.instant('startsAt')!, endsAt: filled.instant('endsAt')! };
    await act(AddSeasonDocument, { input }, data => data.addSeason);
    again();
    return tell('season.added', { season: name });
  };
  const remove = (name: string) =>
    askFirst({
      title: tell('season.remove', { season: name }),
      text: tell('season.remove.why'),
      verb: tell('remove'),
      run: async () => {
        await act(RemoveSeasonDocument, { board: board.slug, name }, data => data.removeSeason);
        again();
        return tell('season.removed', { season: name });
      },
    });
  return (
    <section class="card">
      <h2>{tell('seasons')}</h2>
      {board.seasons.length ? (
        <ul class="rows-of-fields">
          {board.seasons.map(({ name, startsAt, endsAt, ready }) => (
            <li key={name}>
              <div>
                <strong><bdi>{name}</bdi></strong>
                <p class="note">{tell('season.span', { start: utc(startsAt), end: utc(endsAt) })}{!ready && ` · ${tell('windows.filling')}`}</p>
              </div>
              {Date.parse(startsAt) > Date.now() && <button type="button" onClick={() => remove(name)}>{tell('season.remove', { season: name })}</button>}
            </li>
          ))}
        </ul>
      ) : (
        <Nothing title={tell('seasons.none')} />
      )}
      <h3>{tell('season.new')}</h3>
      <Form verb={tell('season.add')} act={add} clears>
        <div class="fields">
          <Text name="name" label={tell('name')} required pattern="[a-z0-9][a-z0-9_\-]{0,63}" hint={tell('season.name.hint')} />
          <Text name="startsAt" label={tell('season.starts')} type="datetime-local" required />
          <Text name="endsAt" label={tell('season.ends')} type="datetime-local" required />
        </div>
      </Form>
    </section>
  );
}

function End({ board: { slug, title } }: { board: Board }) {
  const end = () =>
    askFirst({
      title: tell('board.delete', { board: title }),
      text: tell('board.delete.why'),
      typed: slug,
      verb: tell('delete'),
      run: async () => {
        await act(DeleteBoardDocument, { slug }, data => data.deleteBoard);
        go(address('boards'));
        return tell('board.deleted', { board: slug });
      },
    });
  return (
    <section class="card">
      <h2>{tell('board.end')}</h2>
      <p>{tell('board.delete.why')}</p>
      <div class="buttons">
        <button class="danger" type="button" onClick={end}>{tell('board.delete', { board: title })}</button>
      </div>
    </section>
  );
}
