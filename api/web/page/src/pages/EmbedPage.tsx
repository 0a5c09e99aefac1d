// A list alone, for a frame in another page.

import { say } from '../language';
import { captionOf, useBoard } from './BoardPage';
import { useList } from '../parts/List';
import { Rows } from '../parts/Rows';
import { Nothing, Shown } from '../parts/Trouble';
import type { Board } from '../figures';
import { boardAddress, type Chosen } from '../routes';
import { useTitle } from './title';

export function EmbedPage({ chosen, first }: { chosen: Chosen; first: number }) {
  const loaded = useBoard(chosen.slug);
  useTitle(loaded.value?.title ?? chosen.slug);
  return (
    <main class="embed">
      {!loaded.value && <h1 class="hidden">{chosen.slug}</h1>}
      <Shown of={loaded} rows={first} denied={say('embed.denied')}>
        {board => <Embedded board={board} chosen={chosen} first={first} />}
      </Shown>
    </main>
  );
}

function Embedded({ board, chosen, first }: { board: Board; chosen: Chosen; first: number }) {
  const list = useList({ board, chosen, first });
  const caption = captionOf(board, chosen);
  return (
    <>
      <h1>
        <a href={boardAddress(chosen)} target="_blank" rel="noopener"><bdi>{board.title}</bdi></a>{' '}
        <span class="note">{caption}</span>
      </h1>
      <Shown of={list} rows={first}>
        {({ nodes }) =>
          nodes.length ? (
            <Rows rows={nodes} scored={board} caption={caption} target="_blank" />
          ) : (
            <Nothing title={say('list.none')} />
          )
        }
      </Shown>
    </>
  );
}
