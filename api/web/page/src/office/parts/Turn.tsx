// Turning the pages of a list, by its cursors.

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { say } from '../../language';
import type { Loaded } from '../../load';
import { Shown } from '../../parts/Trouble';

interface Pages {
  /** The cursor of the page that is shown; null for the first one. */
  after: string | null;
  /** The number of the page, from 1. */
  number: number;
  turn: (to: string) => void;
  back: () => void;
}

interface Info {
  hasNextPage: boolean;
  endCursor: string | null;
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

export function Turn({ pages, info }: { pages: Pages; info: Info }) {
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

/** A page of a list, or that there is nothing in it; and the way to the other pages. */
export function Listed<T>({ of, rows, pages, look = 'entries', none, children }: {
  of: Loaded<{ nodes: readonly T[]; pageInfo: Info }>;
  rows: number;
  pages: Pages;
  /** The classes of the list. */
  look?: string;
  none: ComponentChildren;
  children: (node: T, index: number) => ComponentChildren;
}) {
  return (
    <Shown of={of} rows={rows}>
      {({ nodes, pageInfo }) => (
        <>
          {nodes.length ? <ul class={look}>{nodes.map(children)}</ul> : none}
          <Turn pages={pages} info={pageInfo} />
        </>
      )}
    </Shown>
  );
}
