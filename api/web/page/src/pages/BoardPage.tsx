// A board: its list, the reader's place in it, friends, and the distribution of scores.

import { useEffect } from 'preact/hooks';
import { BoardDocument, ViewerDocument } from '../generated';
import { ask, needed, Problem } from '../ask';
import { type Board, periodText, segmentText, windowText } from '../figures';
import { say, time } from '../language';
import { useLoad } from '../load';
import { Periods, Segments, Windows } from '../parts/Choices';
import { Countdown } from '../parts/Countdown';
import { Distribution } from '../parts/Distribution';
import { Friends } from '../parts/Friends';
import { List } from '../parts/List';
import { Picture } from '../parts/Person';
import { Place, usePlace } from '../parts/Place';
import { Share } from '../parts/Share';
import { Shown, Trouble } from '../parts/Trouble';
import type { Chosen } from '../routes';
import { mayLoad } from '../settings';
import { me, token } from '../token';
import { useTitle } from './title';

/** How often the board's rules are asked for again, in milliseconds. */
const AGAIN_MS = 60_000;

/** Loads a board. */
export function useBoard(slug: string) {
  return useLoad(async signal => {
    const { data, problems } = await ask(BoardDocument, { slug }, signal);
    return needed(data.board, problems);
  }, [slug], AGAIN_MS);
}

/** The name of the standings that are chosen. */
export function captionOf(board: Board, { window, period, segment }: Chosen): string {
  const current = board.windows.find(({ name }) => name === window)?.current;
  const named = period && current?.label !== period ? `${windowText(window)}, ${period}` : windowText(window);
  const season = window === 'season' && !period && current ? current.label : '';
  return [season || named, segment && segmentText(segment, board)].filter(Boolean).join(' · ');
}

export function BoardPage({ chosen }: { chosen: Chosen }) {
  const loaded = useBoard(chosen.slug);
  useTitle(loaded.value?.title ?? chosen.slug);
  useViewer();
  return (
    <>
      {!loaded.value && <h1 class="hidden" tabIndex={-1}>{chosen.slug}</h1>}
      <Shown of={loaded} rows={12} denied={say('board.denied')}>
        {board => <Whole board={board} chosen={chosen} again={loaded.again} />}
      </Shown>
    </>
  );
}

/** A token of a member's own says who the reader is. */
function useViewer() {
  const viewer = useLoad(async signal => {
    if (!token.peek()) return undefined;
    const { data } = await ask(ViewerDocument, {}, signal);
    return data.viewer?.member?.key;
  }, []);
  useEffect(() => {
    if (viewer.value) me.value = viewer.value;
  }, [viewer.value]);
}

function Whole({ board, chosen, again }: { board: Board; chosen: Chosen; again: () => void }) {
  const member = chosen.member ?? me.value;
  const place = usePlace(chosen, member);
  const window = board.windows.find(({ name }) => name === chosen.window);
  const caption = captionOf(board, chosen);
  const current = window?.current;
  // Between two seasons there is no list.
  const isThere = current !== null || chosen.period !== undefined;
  return (
    <>
      <div class="masthead">
        {mayLoad(board.iconUrl) && <Picture address={board.iconUrl} name={board.title} of={board.slug} />}
        <div>
          <h1 tabIndex={-1}><bdi>{board.title}</bdi></h1>
          {board.description && <p><bdi>{board.description}</bdi></p>}
          <Times board={board} />
        </div>
        <Share title={board.title} chosen={chosen} />
      </div>
      <Windows board={board} chosen={chosen} />
      <div class="choices">
        <Periods board={board} chosen={chosen} />
        <Segments board={board} chosen={chosen} />
        {current?.nextResetAt && !chosen.period && (
          <div>
            {chosen.window !== 'season' && <p class="note">{periodText(current, chosen.window, board.timeZone)}</p>}
            <Countdown text={chosen.window === 'season' ? 'ends' : 'resets'} at={current.nextResetAt} zone={board.timeZone} over={again} />
          </div>
        )}
      </div>
      {window ? (
        <div class="columns">
          {isThere && <Place board={board} chosen={chosen} member={member} place={place} />}
          <List board={board} chosen={chosen} mine={member} caption={caption} />
          {isThere && (
            <div class="side">
              {member && <Friends board={board} chosen={chosen} member={member} />}
              <Distribution board={board} chosen={chosen} score={place.stale ? undefined : place.value?.entry?.score} />
            </div>
          )}
        </div>
      ) : (
        <Trouble problem={new Problem('window')} />
      )}
    </>
  );
}

function Times({ board }: { board: Board }) {
  const { opensAt, closesAt, direction, timeZone } = board;
  const at = (instant: string) => time(instant, { dateStyle: 'medium', timeStyle: 'short' }, timeZone);
  const facts = [
    direction === 'LOW_FIRST' && say('board.low'),
    opensAt && say('board.opens', { time: at(opensAt) }),
    closesAt && say('board.closes', { time: at(closesAt) }),
  ].filter(Boolean);
  return facts.length ? <p class="note">{facts.join(' · ')}</p> : null;
}
