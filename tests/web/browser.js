// Headless Chromium for the programs that look at a page: its flags, and what is found on a page.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** Flags with which the browser asks no other host than 127.0.0.1. */
export const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
];

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * A page of a new visitor. Its requests and complaints are noted in `seen`, but for the messages that `isExpected` names.
 */
export async function visitor(browser, options, seen, isExpected) {
  const context = await browser.newContext({ locale: 'en', ...options });
  // A deadline for what never comes.
  context.setDefaultTimeout(60_000);
  context.on('request', request => seen.requests.push(request.url()));
  context.on('weberror', error => seen.complaints.push(`thrown: ${error.error()}`));
  context.on('console', message => {
    // The browser reports the refusals of a policy as errors.
    if (['error', 'warning'].includes(message.type()) && !isExpected(message.text())) seen.complaints.push(message.text());
  });
  return context.newPage();
}

/** Looks at a page: as axe-core does, at its width, and by a picture if LAUREL_TEST_PICTURES is a directory. */
export async function examine(page, name, seen) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  for (const { id, nodes } of violations) seen.violations.push(`${name}: ${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  // A phone shows a page that is too wide in a wider window.
  const width = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, innerWidth));
  if (width > page.viewportSize().width) seen.wide.push(name);
  const pictures = process.env.LAUREL_TEST_PICTURES;
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
}

/** The card with a title. */
export const card = (page, title) => page.locator('.card', { has: page.getByRole('heading', { name: title, exact: true }) });
