// The page for people: boards, their lists, and members.

import { effect } from '@preact/signals';
import { render } from 'preact';
import { preferred, say, speak } from './language';
import { Foot, Head } from './parts/Frame';
import { TokenDialog } from './parts/TokenDialog';
import { Nothing } from './parts/Trouble';
import { BoardPage } from './pages/BoardPage';
import { BoardsPage } from './pages/BoardsPage';
import { EmbedPage } from './pages/EmbedPage';
import { FindPage } from './pages/FindPage';
import { MemberPage } from './pages/MemberPage';
import { followLinks, route } from './routes';

function Shown() {
  const at = route.value;
  switch (at.page) {
    case 'boards':
      return <BoardsPage query={at.query} />;
    case 'board':
      return <BoardPage key={at.chosen.slug} chosen={at.chosen} />;
    case 'member':
      return <MemberPage key={at.key} member={at.key} />;
    case 'find':
      return <FindPage prefix={at.prefix} />;
    default:
      return (
        <>
          <h1 class="hidden" tabIndex={-1}>Laurel</h1>
          <Nothing title={say('missing.page')} />
        </>
      );
  }
}

function Page() {
  const at = route.value;
  if (at.page === 'embed') return <EmbedPage chosen={at.chosen} first={at.first} />;
  return (
    <>
      <a class="skip" href="#main">{say('skip')}</a>
      <Head />
      <main id="main">
        <Shown />
      </main>
      <Foot />
      <TokenDialog why={say('token.why')} />
    </>
  );
}

const place = document.getElementById('page')!;
await speak(preferred());
place.replaceChildren();
followLinks();
effect(() => void document.body.classList.toggle('embedded', route.value.page === 'embed'));
render(<Page />, place);
