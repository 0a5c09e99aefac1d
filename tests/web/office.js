// The office at /admin as a moderator with a phone and an operator at a desk use it, in headless Chromium. Prints what happened as
// one line of JSON; the test judges it, and by the API what became of it.
//
// node office.js CHROMIUM ADDRESS READER MODERATOR ADMIN
//
// The last three are access tokens. The server has the board race with a report of bob, and the board duel with two scores in
// quarantine. With LAUREL_TEST_PICTURES, a directory, each page is photographed.

import { chromium } from 'playwright-core';
import { card, examine, FLAGS, visitor as newVisitor } from './browser.js';

const [executablePath, address, reader, moderator, admin] = process.argv.slice(2);
const seen = { requests: [], complaints: [], violations: [], wide: [], shown: {} };

const browser = await chromium.launch({
  executablePath,
  args: FLAGS,
});

/** Failures that the visit brings about itself. */
let expected = false;

const visitor = options => newVisitor(browser, { timezoneId: 'UTC', ...options }, seen, () => expected);

/** Looks at a page once it is still. */
async function look(page, name) {
  await page.waitForFunction(() => !document.querySelector('.skeleton, .stale'));
  await examine(page, name, seen);
}

const press = (place, name) => place.getByRole('button', { name, exact: true }).click();

async function show(name, locator, text) {
  const found = text ? locator.filter({ hasText: text }) : locator;
  await found.first().waitFor();
  seen.shown[name] = await found.first().innerText();
}

async function enter(page, token) {
  await page.locator('.entrance').getByLabel('Access token').fill(token);
  await press(page, 'Enter');
}

async function section(page, name) {
  await page.getByRole('navigation', { name: 'Sections' }).getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
}

/** Goes through the question before an act; the name is typed where one is asked for. */
async function sure(page, verb, typed) {
  const dialog = page.getByRole('dialog');
  if (typed) {
    const button = dialog.getByRole('button', { name: verb, exact: true });
    await dialog.getByRole('textbox').fill(`${typed}x`);
    if (await button.isEnabled()) seen.complaints.push(`${verb} goes without ${typed}`);
    await dialog.getByRole('textbox').fill(typed);
  }
  await press(dialog, verb);
  await dialog.waitFor({ state: 'hidden' });
}

/** Waits for the word about the last act. */
const told = (page, text) => page.locator('.told', { hasText: text }).waitFor();

try {
  const phone = await visitor({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await gate(phone);
  await moderates(phone);
  await phone.close();
  const desk = await visitor({ viewport: { width: 1280, height: 900 }, colorScheme: 'dark' });
  await board(desk);
  await tokens(desk);
  await members(desk);
  await records(desk);
  const arab = await visitor({ viewport: { width: 390, height: 844 }, locale: 'ar' });
  await arabic(arab);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));

/** A wrong token, one that is too small, and a good one. */
async function gate(page) {
  await page.goto(`${address}/admin`);
  await page.getByLabel('Access token').waitFor();
  seen.field = await page.getByLabel('Access token').getAttribute('type');
  await look(page, 'gate');
  expected = true;
  await enter(page, 'laurel_wrong_wrong');
  await show('wrong', page.locator('.refusal'), 'not accepted');
  expected = false;
  await enter(page, reader);
  await show('small', page.locator('.refusal'), 'scopes');
  await look(page, 'gate refused');
  await enter(page, moderator);
  await show('sections', page.getByRole('navigation', { name: 'Sections' }));
  seen.kept = await page.evaluate(() => [{ ...sessionStorage }, { ...localStorage }]);
}

async function moderates(page) {
  await page.goto(`${address}/admin/tokens`);
  await show('denied', page.locator('.nothing'));
  await section(page, 'Waiting');
  await show('waiting', page.locator('.entries'), 'duel');
  await look(page, 'waiting');
  await page.getByRole('link', { name: 'duel' }).click();
  await page.getByLabel(/^Choose score 99000/).check();
  await look(page, 'board of a moderator');
  await press(card(page, 'Quarantine'), 'Release');
  await told(page, '1 score is released');
  await page.getByLabel(/^Choose score 98000/).check();
  await press(card(page, 'Quarantine'), 'Void');
  await sure(page, 'Void');
  await told(page, '1 score is voided');
  await show('decided', card(page, 'Quarantine'), 'No such scores');
  await page.goto(`${address}/admin/boards/race`);
  await show('report', card(page, 'Reports'), 'bob');
  await press(page, 'Uphold the report of bob');
  await told(page, 'resolved');
  await page.goto(`${address}/admin/members/bob?board=race`);
  await card(page, 'Bans').getByLabel('Board').fill('race');
  await card(page, 'Bans').getByLabel('Reason').fill('a script');
  await card(page, 'Bans').getByLabel('Do not tell the member').check();
  await press(card(page, 'Bans'), 'Ban');
  await look(page, 'question');
  // The keyboard alone: Escape takes the question back, and leaves the focus where it was.
  await page.keyboard.press('Escape');
  seen.focus = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press('Enter');
  await sure(page, 'Ban');
  await show('ban', card(page, 'Bans'), 'not told');
  await page.goto(`${address}/admin/members/cy?board=race`);
  await press(page, 'Void 20.00');
  await sure(page, 'Void');
  await show('voided', card(page, 'Events'), '2 events');
  await look(page, 'member of a moderator');
}

/** An operator makes a board, changes it, and deletes another one. */
async function board(page) {
  await page.goto(`${address}/admin`);
  await enter(page, admin);
  await page.getByText('New board').click();
  const form = card(page, 'New board');
  await form.getByLabel('Name in addresses').fill('cup');
  await form.getByLabel('Title').fill('Cup of <b>friends</b>');
  await form.getByLabel('Tags').fill('fun, cup');
  await form.getByLabel('weekly').check();
  await form.getByLabel('season').check();
  await form.getByLabel('Other windows').fill('7d');
  await look(page, 'boards');
  await press(form, 'Create the board');
  await told(page, 'is there');
  const windows = card(page, 'Windows');
  await press(windows, 'Drop weekly');
  await windows.getByLabel('Add windows').fill('daily');
  await press(windows, 'Save the windows');
  await sure(page, 'Drop windows');
  await show('windows', windows.locator('ul'), 'daily');
  const seasons = card(page, 'Seasons');
  await seasons.getByLabel('Name').fill('spring');
  await seasons.getByLabel('Begins (UTC)').fill('2031-03-01T00:00');
  await seasons.getByLabel('Ends (UTC)').fill('2031-02-01T00:00');
  expected = true;
  await press(seasons, 'Add the season');
  await show('refused', seasons.locator('.refusal'));
  expected = false;
  await seasons.getByLabel('Ends (UTC)').fill('2031-04-01T00:00');
  await press(seasons, 'Add the season');
  await show('season', seasons, 'Mar 1');
  const display = card(page, 'Title, description and tags');
  await display.getByLabel('Description').fill('Every week <i>anew</i>');
  await display.getByLabel('Tags').fill('cup');
  await press(display, 'Save');
  await told(page, 'saved');
  await look(page, 'board');
  await page.goto(`${address}/admin/boards/duel`);
  await press(page, 'Delete duel');
  await sure(page, 'Delete', 'duel');
  await told(page, 'deleted');
}

async function tokens(page) {
  await section(page, 'Access tokens');
  await page.getByText('New access token').click();
  const form = card(page, 'New access token');
  await form.getByLabel('submit').check();
  await form.getByLabel('Name').fill('game server');
  await form.getByLabel('Days').fill('30');
  await press(form, 'Create the token');
  seen.secret = await page.getByRole('textbox', { name: 'The new access token' }).inputValue();
  await look(page, 'tokens');
  await press(page, 'I have kept it');
  await press(page, 'Revoke moderator');
  await sure(page, 'Revoke');
  await told(page, 'is revoked');
}

async function members(page) {
  await section(page, 'Members');
  await page.getByLabel('Start of a name or an id').fill('de');
  await page.getByRole('link', { name: 'dee' }).click();
  await look(page, 'member');
  await card(page, 'Merge into another member').getByLabel('Key of the member that stays').fill('dora');
  await press(page, 'Merge');
  await sure(page, 'Merge', 'dee');
  await show('merged', page.locator('.outdated'));
  await page.goto(`${address}/admin/members/bob`);
  await press(page, 'Lift the ban from race');
  await told(page, 'lifted');
  await page.goto(`${address}/admin/members/eve`);
  await press(page, 'Erase');
  await sure(page, 'Erase', 'eve');
  await show('receipt', card(page, 'Receipt of your erasure'), 'done');
  await look(page, 'erasures');
}

async function records(page) {
  await section(page, 'Jobs');
  await show('jobs', page.locator('.entries'), 'Diff');
  await look(page, 'jobs');
  await section(page, 'Checks');
  await show('check', page.locator('.entries'), 'Last diff');
  await show('findings', page.locator('.cases'));
  await look(page, 'checks');
  await section(page, 'Partitions');
  await show('partitions', page.locator('.entries'), 'Partition 0');
  await look(page, 'partitions');
  await page.getByRole('link', { name: 'Those that need attention' }).click();
  await show('well', page.locator('main'), 'No partition needs attention');
  await section(page, 'Audit log');
  await page.getByText('Filter').click();
  await page.getByLabel('Act', { exact: true }).fill('banMember');
  await press(page, 'Show');
  await show('audit', page.locator('.entries'), 'banMember');
  await page.getByText('Values').first().click();
  await look(page, 'audit');
}

async function arabic(page) {
  await page.goto(`${address}/admin`);
  await page.locator('.entrance input').fill(admin);
  await page.keyboard.press('Enter');
  await page.locator('.entries').waitFor();
  seen.direction = await page.evaluate(() => [document.documentElement.dir, document.documentElement.lang]);
  await page.goto(`${address}/admin/boards/race`);
  await page.locator('.rows-of-fields').waitFor();
  await look(page, 'board ar');
}
