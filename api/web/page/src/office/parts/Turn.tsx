// Turning the pages of a list, by its cursors.

import { useEffect, useState } from 'preact/hooks';
import { say } from '../../language';

interface Pages {
  /** The cursor of the page that is shown; null for the first one. */
  after: string | null;
  /** The number of the page, from 1. */
  number: number;
  turn: (to: string) => void;
  back: () => void;
}

/** The pages of a list; the first one again when the list is another. */
export function usePages(list: string): Pages {
  const [cursors, setCursors] = useState<readonly string[]>([]);
  useEffect(() => setCursors([]), [list]);
  return {
    after: cursors.at(-1) ?? null,
    number: cursors.length + 1,
    turn: to => setCursors([...cursors, to]),
    back: () => setCursors(cursors.slice(0, -1)),
  };
}

export function Turn({ pages, info }: { pages: Pages; info: { hasNextPage: boolean; endCursor: string | null } }) {
  const next = info.hasNextPage ? info.endCursor : null;
  if (!next && pages.number === 1) return null;
  return (
    <nav class="pages" aria-label={say('pages')}>
      <button type="button" disabled={pages.number === 1} onClick={pages.back}>{say('pages.before')}</button>
      <span role="status">{pages.number}</span>
      <button type="button" disabled={!next} onClick={() => next && pages.turn(next)}>{say('pages.after')}</button>
    </nav>
  );
}
