// A page of a list. The first page of a present period moves live; other pages are asked for again now and then.

import { useEffect, useRef, useState } from 'preact/hooks';
import { ListDocument, TopDocument } from '../generated';
import { ask, needed, Problem } from '../ask';
import type { Board } from '../figures';
import { number, say, time } from '../language';
import { connection, follow } from '../live';
import { useLoad } from '../load';
import { boardAddress, PAGE, standingsOf, type Chosen } from '../routes';
import { token } from '../token';
import { type Row, Rows } from './Rows';
import { Nothing, Shown } from './Trouble';

/** How often a list is asked for again while changes come by themselves, and while they do not, in milliseconds. */
const LIVE_MS = 30_000;
const POLL_MS = 5_000;

interface Listed {
  at: number;
  size: number;
  nodes: readonly Row[];
  /** The time up to which the list is complete, while the server answers from its history. */
  fallback?: string | null | undefined;
}

interface Wanted {
  board: Board;
  chosen: Chosen;
  first: number;
}

/** The newest state of a list, from its subscription or from a query. */
export function useList({ board, chosen, first }: Wanted) {
  const { slug, offset } = chosen;
  const of = standingsOf(chosen);
  const kind = board.windows.find(({ name }) => name === chosen.window)?.kind;
  const withChange = kind !== 'ALL_TIME' && kind !== 'DECAY';
  const isLive = offset === 0 && !chosen.period;
  const [pushed, setPushed] = useState<Listed & { of: string }>();
  const [refused, setRefused] = useState<Problem>();
  const key = JSON.stringify([slug, of, first, token.value]);
  useEffect(() => {
    setRefused(undefined);
    if (!isLive) return;
    return follow(TopDocument, { board: slug, of, first, withChange }, {
      next: ({ top }) => setPushed({ of: key, at: Date.now(), size: top.totalCount, nodes: top.nodes }),
      refuse: setRefused,
    });
  }, [key, isLive]);
  const isFollowed = isLive && connection.value === 'live' && !refused;
  const loaded = useLoad<Listed>(async signal => {
    const { data, problems } = await ask(ListDocument, { slug, of, first, offset, withChange }, signal);
    const { size, top, source, asOf } = needed(needed(data.board, problems).standings, problems);
    return { at: Date.now(), size, nodes: needed(top, problems).nodes, fallback: source === 'FALLBACK' ? asOf : undefined };
  }, [slug, of, first, offset], isFollowed ? LIVE_MS : POLL_MS);
  const isNewer = isLive && pushed?.of === key && pushed.at >= (loaded.stale ? 0 : (loaded.value?.at ?? 0));
  if (isNewer) return { ...loaded, isLive, isFollowed, value: pushed as Listed, stale: false, problem: undefined };
  return { ...loaded, isLive, isFollowed };
}

export function List({ board, chosen, mine, caption }: { board: Board; chosen: Chosen; mine: string; caption: string }) {
  const list = useList({ board, chosen, first: PAGE });
  return (
    <section class="card list" aria-labelledby="list-title">
      <div class="title">
        <h2 id="list-title">{caption}</h2>
        <State isLive={list.isLive} isFollowed={list.isFollowed} />
      </div>
      <Shown of={list} rows={10}>
        {({ nodes, size, fallback }) => (
          <>
            {fallback && <p class="outdated" role="status">{say('fallback', { time: time(fallback, { timeStyle: 'medium' }) })}</p>}
            {nodes.length ? (
              <Rows rows={nodes} scored={board} caption={caption} mine={mine} chosen={{ ...chosen, metadata: board.metadata }} />
            ) : (
              <Nothing title={say(chosen.offset ? 'list.end' : 'list.none')}>
                {!chosen.offset && <p>{say('list.none.why')}</p>}
              </Nothing>
            )}
            <Leader key={JSON.stringify(standingsOf(chosen))} row={chosen.offset ? undefined : nodes[0]} />
            <Pages chosen={chosen} size={size} />
          </>
        )}
      </Shown>
    </section>
  );
}

function State({ isLive, isFollowed }: { isLive: boolean; isFollowed: boolean }) {
  if (!isLive) return null;
  return (
    <span class={`state ${isFollowed ? 'live' : ''}`} role="status">
      {say(isFollowed ? 'state.live' : 'state.polling')}
    </span>
  );
}

/** Tells a screen reader about a new leader. */
function Leader({ row }: { row: Row | undefined }) {
  const before = useRef<string | undefined>(undefined);
  const [told, setTold] = useState('');
  useEffect(() => {
    if (before.current && row && before.current !== row.id) {
      setTold(say('leader', { name: row.member?.name ?? say('anonymous') }));
    }
    before.current = row?.id;
  }, [row?.id]);
  return <p class="hidden" aria-live="polite">{told}</p>;
}

function Pages({ chosen, size }: { chosen: Chosen; size: number }) {
  const { offset } = chosen;
  if (size <= PAGE && !offset) return null;
  const last = Math.min(size, offset + PAGE);
  return (
    <nav class="pages" aria-label={say('pages')}>
      {offset > 0 && <a rel="prev" href={boardAddress({ ...chosen, offset: Math.max(0, offset - PAGE) })}>{say('pages.before')}</a>}
      <span>{say('pages.here', { first: number(Math.min(size, offset + 1)), last: number(last), size })}</span>
      {last < size && <a rel="next" href={boardAddress({ ...chosen, offset: offset + PAGE })}>{say('pages.after')}</a>}
    </nav>
  );
}
