// The head and the foot of the page.

import { LANGUAGES, language, say, speak } from '../language';
import { token, tokenIsAsked } from '../token';
import { settings } from '../settings';

/** The leaders of all boards, as a link to the API. */
const LEADERS = '{ boards { nodes { slug title standings { size top(first: 3) { nodes { rank score member { key } } } } } } }';

export function Head() {
  return (
    <header class="bar">
      <a class="brand" href="/">
        <Leaf />
        <span>Laurel</span>
      </a>
      <nav aria-label={say('menu')}>
        <a href="/">{say('boards')}</a>
        <a href="/members">{say('find')}</a>
        <button type="button" onClick={() => (tokenIsAsked.value = true)}>
          {token.value ? say('token.used') : say('token.enter')}
        </button>
      </nav>
    </header>
  );
}

function Leaf() {
  return (
    <svg class="leaf" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M16 29C6 25 4 14 9 4c1 6 3 8 7 12 4-4 6-6 7-12 5 10 3 21-7 25z" />
    </svg>
  );
}

export function Foot() {
  return (
    <footer>
      <label>
        {say('language')}{' '}
        <select value={language.value.tag} onChange={event => void speak(event.currentTarget.value, true)}>
          {Object.entries(LANGUAGES).map(([tag, { name }]) => (
            <option key={tag} value={tag} lang={tag}>{name}</option>
          ))}
        </select>
      </label>
      <nav aria-label={say('programs')}>
        {settings.graphiql && <a href="/graphiql">GraphiQL</a>}
        <a href={`/graphql?query=${encodeURIComponent(LEADERS)}`}>{say('json')}</a>
        {settings.health && (
          <>
            <a href="/healthz">healthz</a>
            <a href="/readyz">readyz</a>
          </>
        )}
      </nav>
    </footer>
  );
}
