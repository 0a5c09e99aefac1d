// GraphiQL as a person uses it, in headless Chromium: opens it, reads the manual, enters a wrong token and a right one, runs each
// tab, then types a query. Prints what happened as one line of JSON; the test judges it.
//
// node graphiql.js CHROMIUM ADDRESS TOKEN DIRECTORY
//
// The directory is empty, for the browser's profile. With LAUREL_TEST_PICTURES, a directory, each tab is photographed.

import { chromium } from 'playwright-core';
import { FLAGS } from './browser.js';

const [executablePath, address, token, directory] = process.argv.slice(2);
const pictures = process.env.LAUREL_TEST_PICTURES;
/** A token that the server refuses. */
const WRONG = 'laurel_wrong_wrong';
const seen = { requests: [], complaints: [], answers: {}, shown: {} };

const context = await chromium.launchPersistentContext(directory, {
  executablePath,
  headless: true,
  viewport: { width: 1440, height: 900 },
  args: FLAGS,
});
// A deadline for what never comes; on a busy machine the page itself takes some seconds.
context.setDefaultTimeout(120_000);
try {
  context.on('request', request => seen.requests.push(request.url()));
  context.on('requestfailed', request => complain('failed', request.url()));
  context.on('weberror', error => complain('thrown', error.error()));
  context.on('console', message => {
    // The browser reports the refusals of a policy as errors, and those of a token, which are looked at below.
    const isOfToken = message.text().includes('status of 401');
    if (['error', 'warning'].includes(message.type()) && !isOfToken) complain(message.type(), message.text());
  });
  context.on('response', async response => {
    const { authorization } = await response.request().allHeaders();
    if (response.status() === 401 && authorization !== `Bearer ${WRONG}`) complain('refused', response.url());
  });
  await visit(context.pages()[0]);
} finally {
  await context.close();
}
console.log(JSON.stringify(seen));

function complain(kind, what) {
  seen.complaints.push(`${kind}: ${what}`);
}

async function visit(page) {
  await page.goto(`${address}/graphiql`);
  await readManual(page);
  await enter(page, WRONG, 'wrong');
  await enter(page, token, 'scopes');
  for (const tab of await page.locator('.graphiql-tab-button').all()) {
    await tab.click();
    await run(page, await tab.textContent());
  }
  await page.getByLabel('New tab').click();
  await page.locator('.graphiql-query-editor .view-lines', { hasNotText: 'mutation' }).click();
  await page.keyboard.insertText('{ viewer { scopes } }');
  await run(page, 'typed');
  await subscribe(page);
  seen.kept = await page.evaluate(() => [{ ...sessionStorage }, { ...localStorage }]);
}

/** Enters a token, and waits for the words about it. */
async function enter(page, secret, name) {
  const field = page.getByLabel('Access token');
  await field.fill(secret);
  await field.press('Enter');
  const verdict = page.locator('.verdict', { hasText: secret === WRONG ? 'wrong' : 'Scopes' });
  seen.shown[name] = await verdict.innerText();
  seen.hidden = await field.getAttribute('type');
}

/** Runs a subscription, which goes over a socket, until its first answer is on the screen. */
async function subscribe(page) {
  await page.getByLabel('New tab').click();
  await page.locator('.graphiql-query-editor .view-lines', { hasNotText: 'viewer' }).click();
  await page.keyboard.insertText('subscription { top(board: "race", first: 1) { nodes { rank } } }');
  await page.locator('.graphiql-execute-button').click();
  seen.shown.live = await page.locator('.result-window', { hasText: '"top"' }).innerText();
}

/** The manual of the schema, which is there once the schema is. */
async function readManual(page) {
  await page.getByLabel('Show Documentation Explorer').click();
  const manual = page.locator('.graphiql-doc-explorer-content', { hasText: 'All Schema Types' });
  seen.shown.manual = await manual.innerText();
  await page.getByLabel('Hide Documentation Explorer').click();
}

/** Presses the button once the editors are there, and waits until the answer is on the screen. */
async function run(page, title) {
  for (const editor of ['.graphiql-query-editor', '.result-window']) {
    await page.locator(`${editor} .view-lines`).waitFor({ state: 'attached' });
  }
  const answered = page.waitForResponse(
    response =>
      response.url() === `${address}/graphql` &&
      !/IntrospectionQuery|TokenScopes/.test(response.request().postData()),
  );
  await page.locator('.graphiql-execute-button').click();
  const answer = await (await answered).json();
  const shown = page.locator('.result-window', { hasText: `"${Object.keys(answer.data ?? {})[0]}"` });
  seen.answers[title] = answer;
  seen.shown[title] = await shown.innerText();
  if (pictures) await page.screenshot({ path: `${pictures}/${title}.png` });
}
