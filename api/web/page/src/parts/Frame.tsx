// The head and the foot of the page.

import { say } from '../language';
import { token, tokenIsAsked } from '../token';
import { settings } from '../settings';
import { Languages } from './Languages';
import { Leaf } from './Leaf';

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

export function Foot() {
  return (
    <footer>
      <Languages />
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
