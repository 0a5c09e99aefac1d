// The access token, kept in this tab's session only and sent to this server only.

const KEY = 'laurel:access-token';

export function storedToken() {
  return sessionStorage.getItem(KEY) ?? '';
}

export function storeToken(token) {
  sessionStorage.setItem(KEY, token);
}

/** `fetch` with the token, unless the headers editor already names one. */
export function fetchWithToken(url, init) {
  const headers = new Headers(init.headers);
  const token = storedToken().trim();
  if (token && !headers.has('authorization')) {
    headers.set('authorization', `Bearer ${token}`);
  }
  return fetch(url, { ...init, headers });
}

/** Asks the server about a token, and returns the words about it: its scopes, or why it is not accepted. */
export async function judged(token) {
  if (!token.trim()) return { text: '' };
  try {
    const response = await fetch('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token.trim()}` },
      body: JSON.stringify({ query: 'query TokenScopes { viewer { scopes } }' }),
    });
    const { data, errors } = await response.json();
    if (response.status === 401) return { isWrong: true, text: `The token is wrong: ${errors?.[0]?.message}` };
    const scopes = data?.viewer?.scopes ?? [];
    return { text: scopes.length ? `Scopes: ${scopes.join(', ').toLowerCase()}` : '' };
  } catch {
    // No connection, which says nothing about the token.
    return { text: '' };
  }
}
