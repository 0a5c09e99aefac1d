// The page at `/` as players use it, in headless Chromium: a phone and a desktop. Prints what happened as one line of JSON; the
// test judges it.
//
// node page.js CHROMIUM ADDRESS TOKEN
//
// The server has the board race, with the members ann to eve. With LAUREL_TEST_PICTURES, a directory, each page is photographed.

import { chromium } from 'playwright-core';
import { card, examine, FLAGS, visitor as newVisitor } from './browser.js';

const [executablePath, address, token] = process.argv.slice(2);
const seen = { requests: [], complaints: [], violations: [], wide: [], shown: {}, overtaking: [] };

const browser = await chromium.launch({
  executablePath,
  args: FLAGS,
});

/** Failures that the visit brings about itself. */
let expected = false;

// The host of a picture is not there.
const visitor = options => newVisitor(browser, options, seen, text => expected || text.includes('ERR_NAME_NOT_RESOLVED'));

/** Looks at a page once it is still. */
async function look(page, name) {
  // Animations change colors.
  await page.waitForFunction(() => document.getAnimations().every(({ playState }) => playState !== 'running' || document.querySelector('.skeleton')));
  await examine(page, name, seen);
}

const row = (page, rank) => page.locator('.list tbody tr[data-id]').nth(rank - 1);

async function show(name, locator, options) {
  const found = options ? locator.filter(options) : locator;
  await found.first().waitFor();
  seen.shown[name] = await found.first().innerText();
}

async function submit(member, score) {
  // A score of long ago, so that today's list is empty.
  const scores = JSON.stringify([{ member, score, at: '2025-09-03T10:06:00Z' }]).replace(/"(member|score|at)":/g, '$1:');
  const answer = await fetch(`${address}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ query: `mutation { submitScores(input: { board: "race", scores: ${scores} }) { accepted } }` }),
  });
  const { data } = await answer.json();
  if (data?.submitScores?.accepted !== 1) throw new Error('the score was not accepted');
}

async function enter(page, secret) {
  await page.getByRole('button', { name: /token/i }).first().click();
  await page.getByRole('dialog').getByLabel('Access token').fill(secret);
  await page.getByRole('dialog').getByRole('button', { name: 'Use it' }).click();
}

try {
  const phone = await visitor({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const desk = await visitor({ viewport: { width: 1280, height: 900 }, colorScheme: 'dark' });
  await boards(phone);
  await overtaking(phone, desk);
  await secrets(phone);
  await states(phone);
  await times(desk);
  await desk.close();
  const arab = await visitor({ viewport: { width: 390, height: 844 }, locale: 'ar' });
  await others(arab);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));

async function boards(page) {
  await page.goto(address);
  await show('boards', page.locator('.boards'), { hasText: 'race' });
  await look(page, 'boards');
  await page.keyboard.press('Tab');
  seen.keyboard = { first: await page.evaluate(() => document.activeElement.textContent) };
  await page.getByRole('link', { name: 'race' }).click();
  await show('list', row(page, 1));
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'My place' }).click();
  await page.getByLabel('Member id').fill('dee');
  await page.getByRole('button', { name: 'Show my place' }).click();
  await show('place', card(page, 'My place'), { hasText: '#4' });
  await show('friends without a token', card(page, 'Friends'), { hasText: 'token' });
  await row(page, 1).getByRole('button').click();
  await page.locator('.opened dl').waitFor();
  await look(page, 'board');
}

/** A member overtakes two others: the list of both visitors moves by itself, and nothing else does. */
async function overtaking(phone, desk) {
  await desk.goto(`${address}/boards/race?member=dee`);
  await desk.getByText('Live', { exact: true }).waitFor();
  const events = await desk.context().newPage();
  await events.goto(`${address}/boards/race?live=events`);
  await events.getByText('Live', { exact: true }).waitFor();
  await look(desk, 'board dark');
  const measure = page => page.evaluate(() => {
    const { offsetTop, offsetHeight } = document.querySelector('.list');
    return [scrollY, offsetTop, offsetHeight, (window.loaded ??= Math.random())].join();
  });
  const before = [await measure(phone), await measure(desk)];
  await submit('dee', 15);
  for (const [index, page] of [phone, desk].entries()) {
    await row(page, 2).filter({ hasText: '25.00' }).waitFor();
    const name = await row(page, 2).locator('.name').innerText();
    const after = await measure(page);
    seen.overtaking.push([name, after === before[index] || `${before[index]} became ${after}`]);
  }
  await row(events, 2).filter({ hasText: '25.00' }).waitFor();
  seen.by_events = await row(events, 2).locator('.name').innerText();
  await card(phone, 'My place').filter({ hasText: '#2' }).waitFor();
}

/** What needs a token: it is asked for, a wrong one is named, and a right one shows more. */
async function secrets(page) {
  await page.goto(`${address}/members?find=b`);
  await show('search without a token', page.locator('.trouble'));
  expected = true;
  await enter(page, 'laurel_wrong_wrong');
  await show('wrong token', page.locator('.trouble'), { hasText: 'not accepted' });
  expected = false;
  await page.getByRole('button', { name: 'Token in use' }).click();
  await look(page, 'dialog');
  await page.keyboard.press('Escape');
  seen.keyboard.closed = await page.getByRole('dialog').isHidden();
  await enter(page, token);
  await show('search', page.locator('.people'));
  await page.goto(`${address}/boards/race`);
  await show('friends', card(page, 'Friends'), { hasText: '#1' });
  await page.goto(`${address}/members/dee`);
  await page.getByRole('button', { name: 'History' }).click();
  await show('history', page.locator('table.plain'));
  await look(page, 'member');
  seen.kept = await page.evaluate(() => [{ ...sessionStorage }, { ...localStorage }]);
}

async function states(page) {
  await page.goto(`${address}/boards/race`);
  await page.getByRole('link', { name: 'Today' }).click();
  await show('empty', card(page, 'Today'), { hasText: 'No scores' });
  await look(page, 'empty');
  expected = true;
  await page.context().setOffline(true);
  await page.getByRole('link', { name: 'Boards' }).click();
  await show('offline', page.locator('.trouble'));
  await look(page, 'offline');
  await page.context().setOffline(false);
  await page.locator('.boards').waitFor();
  expected = false;
  await page.goto(`${address}/boards/none`);
  await show('missing', page.locator('.trouble'));
}

/** A board of times: distances, metadata, a season that is over, and a segment of it. */
async function times(page) {
  await page.goto(`${address}/boards/lap?member=bob`);
  await show('lap', card(page, 'Place of Bob'), { hasText: 'behind' });
  await row(page, 1).getByRole('button').click();
  await show('metadata', page.locator('.opened dl'));
  await page.getByRole('link', { name: 'Season' }).click();
  await show('between seasons', page.locator('.trouble'));
  await page.getByLabel('When').selectOption('autumn');
  await page.getByLabel('Group').selectOption('region:eu');
  await show('season', row(page, 1), { hasText: 'Bob' });
  await look(page, 'season');
}

async function others(page) {
  await page.goto(`${address}/boards/race?member=cy`);
  await page.locator('.place .figure').waitFor();
  seen.direction = await page.evaluate(() => [document.dir || document.documentElement.dir, document.documentElement.lang]);
  await look(page, 'board ar');
  await page.goto(`${address}/embed/race?first=3&lang=en`);
  await show('embed', page.locator('.rows'));
  await look(page, 'embed');
}
