// The office: boards, members and the server's own affairs, for those whose token has the scope moderate or admin.

import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { language, preferred, say, speak } from '../language';
import { Languages } from '../parts/Languages';
import { Leaf } from '../parts/Leaf';
import { Nothing } from '../parts/Trouble';
import { TokenDialog } from '../parts/TokenDialog';
import { tokenIsAsked } from '../token';
import { told } from './acts';
import { Gate } from './Gate';
import { AuditPage } from './pages/AuditPage';
import { BoardPage } from './pages/BoardPage';
import { BoardsPage } from './pages/BoardsPage';
import { ChecksPage } from './pages/ChecksPage';
import { ErasuresPage } from './pages/ErasuresPage';
import { JobsPage } from './pages/JobsPage';
import { MemberPage } from './pages/MemberPage';
import { MembersPage } from './pages/MembersPage';
import { PartitionsPage } from './pages/PartitionsPage';
import { TokensPage } from './pages/TokensPage';
import { WaitingPage } from './pages/WaitingPage';
import { Sure, Told } from './parts/Sure';
import { address, followLinks, place, SECTIONS, type Section } from './routes';
import { may, scopes } from './viewer';
import { learn, tell } from './words';

function Shown() {
  const { section, name, query } = place.value;
  if (section === 'missing') return <Missing title={say('missing.page')} />;
  if (!may(SECTIONS[section])) return <Missing title={tell('section.denied')} why={tell('section.denied.why')} />;
  switch (section) {
    case 'boards':
      return name ? <BoardPage key={name} slug={name} /> : <BoardsPage query={query.get('query') ?? ''} />;
    case 'waiting':
      return <WaitingPage />;
    case 'members':
      return name ? <MemberPage key={name} member={name} board={query.get('board') ?? ''} /> : <MembersPage prefix={query.get('find') ?? ''} />;
    case 'tokens':
      return <TokensPage />;
    case 'jobs':
      return <JobsPage />;
    case 'checks':
      return <ChecksPage />;
    case 'partitions':
      return <PartitionsPage key={String(query)} unwell={query.has('unwell')} />;
    case 'audit':
      return <AuditPage query={query} />;
    case 'erasures':
      return <ErasuresPage />;
  }
}

function Missing({ title, why }: { title: string; why?: string }) {
  return (
    <>
      <h1 class="hidden" tabIndex={-1}>{tell('office')}</h1>
      <Nothing title={title}>{why && <p>{why}</p>}</Nothing>
    </>
  );
}

function Head() {
  return (
    <header class="bar">
      <a class="brand" href="/admin">
        <Leaf />
        <span>{tell('office.of')}</span>
      </a>
      <nav aria-label={say('menu')}>
        <a href="/">{tell('page')}</a>
        {scopes.value.length > 0 && (
          <button type="button" onClick={() => (tokenIsAsked.value = true)}>{say('token.used')}</button>
        )}
      </nav>
    </header>
  );
}

function Sections() {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    bar.current?.querySelector('[aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });
  }, [place.value.section]);
  const there = (Object.keys(SECTIONS) as Section[]).filter(section => may(SECTIONS[section]));
  return (
    <nav class="windows" ref={bar} aria-label={tell('sections')}>
      {there.map(section => (
        <a key={section} href={address(section)} {...(section === place.value.section && { 'aria-current': 'page' })}>
          {tell(`section.${section}`)}
        </a>
      ))}
    </nav>
  );
}

function Office() {
  return (
    <>
      <a class="skip" href="#main">{say('skip')}</a>
      <Head />
      <main id="main" class="office">
        <Gate>
          <Sections />
          <Shown />
        </Gate>
      </main>
      <footer>
        <Languages />
      </footer>
      <Told />
      <Sure />
      {scopes.value.length > 0 && <TokenDialog why={tell('token.why')} />}
    </>
  );
}

const root = document.getElementById('page')!;
await speak(preferred());
await learn(language.value.tag);
root.replaceChildren();
// The word about an act is of the page on which it was done.
followLinks(() => (told.value = ''));
render(<Office />, root);
