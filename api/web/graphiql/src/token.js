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
