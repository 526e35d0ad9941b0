// Owns the steps of a test of the page: what each waits for, what is looked at in all of them, and what the page complained of.
// Starts no node.
import assert from 'node:assert/strict';
import AxeBuilder from '@axe-core/playwright';
import { serveFrom } from './world.mjs';

/** Nothing depends on how long something takes: this only ends a test that hangs. */
const PATIENCE_MS = Number(process.env.PATIENCE ?? 120_000);

const began = performance.now();
export async function step(name, act) {
  await act();
  console.log(`ok ${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${name}`);
}

/** Waits until `look` gives something true, and gives that. */
export async function until(what, look) {
  const end = performance.now() + PATIENCE_MS;
  let seen;
  while (performance.now() < end) {
    seen = await look();
    if (seen) return seen;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`never: ${what}`);
}

/** The complaints of pages. */
export const complaints = [];

/** A page with separate cookies. */
export async function open(browser, { width = 1440, height = 900, scheme = 'light', ...more } = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width, height }, colorScheme: scheme, ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`));
  page.on('console', (message) => {
    // The page itself reports a refused or broken request.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) complaints.push(`${page.url()}: ${message.text()}`);
  });
  if (process.env.DIST) await serveFrom(page, process.env.DIST);
  return page;
}

/** Nothing serious for those who do not see, do not use a mouse, or need contrast. */
export async function accessible(page, what) {
  // Effects of a change of sizes end before the next frame is drawn.
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const findings = serious.map(({ id, help, nodes }) => `${what}: ${id}: ${help}: ${nodes.map((node) => node.html).slice(0, 3).join(' ')}`);
  assert.deepEqual(findings, []);
}

/** A request of the page to the node, with the cookie of the page. */
export async function api(page, path, method = 'GET', body) {
  return page.evaluate(
    async ([path, method, body]) => {
      const headers = { 'X-Godwit-Page': '1', 'Content-Type': 'application/json' };
      const answer = await fetch(`/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
      const text = await answer.text();
      return { status: answer.status, body: text && JSON.parse(text) };
    },
    [path, method, body],
  );
}

/** The open job comes into this state. */
export const state = (page, name) => page.locator(`section[aria-label="State"] [data-state="${name}"]`).waitFor();

/** The id of the open job. */
export const idOf = (page) => new URL(page.url()).pathname.split('/').pop();
