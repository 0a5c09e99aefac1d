// A report as a person opens it, in headless Chromium. Prints what is seen as one line of JSON; the test judges it.
//
// node report.js CHROMIUM ADDRESS DIRECTORY
//
// The directory is empty, for the browser's profile. With LAUREL_TEST_PICTURES, a directory, the page is photographed.

import { chromium } from 'playwright-core';

const [executablePath, address, directory] = process.argv.slice(2);
const pictures = process.env.LAUREL_TEST_PICTURES;
const seen = { requests: [], complaints: [] };

const context = await chromium.launchPersistentContext(directory, {
  executablePath,
  headless: true,
  viewport: { width: 1100, height: 900 },
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--host-resolver-rules=MAP * ~NOTFOUND',
  ],
});
// A deadline for what never comes; on a busy machine the page itself takes some seconds.
context.setDefaultTimeout(120_000);
try {
  context.on('request', request => seen.requests.push(request.url()));
  context.on('weberror', error => seen.complaints.push(`thrown: ${error.error()}`));
  context.on('dialog', dialog => seen.complaints.push(`dialog: ${dialog.message()}`));
  context.on('console', message => {
    // The browser reports the refusals of a policy as errors.
    if (['error', 'warning'].includes(message.type())) seen.complaints.push(message.text());
  });
  await visit(context.pages()[0]);
} finally {
  await context.close();
}
console.log(JSON.stringify(seen));

async function visit(page) {
  await page.goto(address);
  seen.title = await page.title();
  seen.headings = await page.locator('h2').allTextContents();
  seen.text = await page.locator('main').innerText();
  seen.pictures = await page.locator('svg').evaluateAll(svgs =>
    svgs.map(svg => {
      const all = svg.getBoundingClientRect();
      const isOutside = text => {
        const box = text.getBoundingClientRect();
        return box.left < all.left || box.right > all.right || box.top < all.top || box.bottom > all.bottom;
      };
      const outside = [...svg.querySelectorAll('text')].filter(isOutside);
      return { width: all.width, height: all.height, outside: outside.map(text => text.textContent) };
    }),
  );
  seen.scrolls = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  if (pictures) await page.screenshot({ path: `${pictures}/report.png`, fullPage: true });
}
