// The page: GraphiQL below a bar with the access token.

import 'graphiql/setup-workers/vite';
import 'graphiql/style.css';
import './page.css';

import { useGraphiQLActions } from '@graphiql/react';
import { createGraphiQLFetcher } from '@graphiql/toolkit';
import { GraphiQL } from 'graphiql';
import { parse } from 'graphql';
import { createClient } from 'graphql-ws';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

import { examples } from './examples.js';
import { fetchWithToken, judged, storedToken, storeToken } from './token.js';

/** Opens a socket with the first subscription, and closes it after the last. */
const wsClient = createClient({
  url: `${location.origin.replace(/^http/, 'ws')}/graphql`,
  connectionParams: () => ({ token: storedToken().trim() || null }),
});

const send = createGraphiQLFetcher({ url: '/graphql', fetch: fetchWithToken, wsClient });

function parsed(query) {
  try {
    return parse(query);
  } catch {
    return undefined;
  }
}

/**
 * GraphiQL learns an operation's name and type a moment after its text. A user who changes tabs and
 * runs at once would send the name of the last tab, and a subscription by POST.
 */
function fetcher({ operationName, ...request }, options) {
  const documentAST = parsed(request.query);
  const names = (documentAST?.definitions ?? []).flatMap(({ kind, name }) =>
    kind === 'OperationDefinition' && name ? [name.value] : [],
  );
  const meant = names.length === 1 ? names[0] : names.find(name => name === operationName);
  const named = meant ? { ...request, operationName: meant } : request;
  return send(named, { ...options, documentAST });
}

/** Asks for the schema again when the token changes, as a server may show it only with a token. */
function SchemaFor({ token }) {
  const { introspect } = useGraphiQLActions();
  const [asked, setAsked] = useState(token);
  useEffect(() => {
    if (token !== asked) {
      setAsked(token);
      introspect();
    }
  }, [token, asked, introspect]);
  return (
    <>
      Graph<em>i</em>QL
    </>
  );
}

function Page() {
  const [typed, setTyped] = useState(storedToken);
  const [entered, setEntered] = useState(typed);
  const [verdict, setVerdict] = useState({ text: '' });
  useEffect(() => {
    let isLast = true;
    void judged(entered).then(found => isLast && setVerdict(found));
    return () => {
      isLast = false;
    };
  }, [entered]);
  const type = event => {
    setTyped(event.target.value);
    storeToken(event.target.value);
  };
  const enter = event => {
    event.preventDefault();
    setEntered(typed);
  };
  return (
    <>
      <form className="bar" onSubmit={enter}>
        <a href="/">Laurel</a>
        <label>
          Access token
          <input
            name="token"
            type="password"
            value={typed}
            onChange={type}
            onBlur={enter}
            placeholder="sent as Authorization: Bearer …; kept until this tab closes"
            autoComplete="off"
            spellCheck={false}
          />
        </label>
        <span className={verdict.isWrong ? 'verdict wrong' : 'verdict'} role="status">
          {verdict.text}
        </span>
      </form>
      <main>
        <GraphiQL fetcher={fetcher} defaultTabs={examples} defaultEditorToolsVisibility="variables">
          <GraphiQL.Logo>
            <SchemaFor token={entered} />
          </GraphiQL.Logo>
        </GraphiQL>
      </main>
    </>
  );
}

createRoot(document.getElementById('page')).render(<Page />);
