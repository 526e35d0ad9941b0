// Owns the walk of a new user, who has an address, a name and a password: moves a data set between two sites and reads what limits it.
// The Rust test `page` runs it; with a directory it writes the pictures of docs/page.md there: `make pictures`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, complaints, idOf, open, state, step, until } from './lib/steps.mjs';
import { signIn, World } from './lib/world.mjs';

const [out] = process.argv.slice(2);
if (out) mkdirSync(out, { recursive: true });
async function picture(page, name, options = {}) {
  if (out) await page.screenshot({ path: join(out, `${name}.png`), animations: 'disabled', ...options });
}

const world = await World.start([], { there: 'writes' });
try {
  const { here, there } = world;
  await here.user('nora', 'operator');
  await here.godwit('access', 'allow', 'user:nora', '--export', 'data', '--read', '--write');
  await here.godwit('access', 'allow', 'user:nora', '--site', 'siteB:/data', '--read', '--write');
  await here.godwit('gen', '200x256KiB..512KiB,24x8MiB..24MiB', join(here.data, 'run42'), '--seed', '7');
  await here.godwit('gen', '3x1MiB', join(here.data, 'calibration'), '--seed', '8');
  const browser = await world.browser();
  const page = await open(browser, { width: 1200, height: 820 });

  await step('each answer takes 200 ms, and the first view teaches', async () => {
    const network = await page.context().newCDPSession(page);
    await network.send('Network.enable');
    await network.send('Network.emulateNetworkConditions', { offline: false, latency: 200, downloadThroughput: -1, uploadThroughput: -1 });
    await signIn(page, here.url, 'nora');
    await page.getByRole('link', { name: 'Submit a job' }).click();
    await page.getByRole('heading', { name: 'New job' }).waitFor();
  });

  await step('a data set and a destination are found by looking around', async () => {
    const from = page.getByRole('region', { name: 'From' });
    await from.getByRole('button', { name: 'data/' }).click();
    await from.getByRole('checkbox', { name: 'Choose run42' }).check();
    const to = page.getByRole('region', { name: 'To', exact: true });
    await to.getByLabel('Browse').selectOption('siteB');
    await to.getByRole('button', { name: 'data/' }).click();
    await to.getByRole('button', { name: 'Copy into this directory' }).click();
    await page.getByLabel('Label').fill('night run 42');
    await page.getByText('godwit job submit here:/data/run42 siteB:/data/').waitFor();
    await picture(page, 'new', { fullPage: true });
    await page.getByRole('button', { name: 'Submit the job' }).click();
  });

  let id;
  await step('the page says what limits the job, and the job arrives whole', async () => {
    await page.getByText('Limited by destination storage.').waitFor();
    id = idOf(page);
    // An answer that left the node before an event does not undo the event.
    await page.locator('section[aria-label="State"] [data-state="running"]').waitFor();
    if (out) await until('some figures', async () => (await here.job(id)).progress?.bytes > 300e6);
    await picture(page, 'job', { fullPage: true });
    if (out) {
      const phone = await open(browser, { width: 390, height: 844, scheme: 'dark' });
      await signIn(phone, `${here.url}/jobs/${id}`, 'nora');
      await phone.getByText('Limited by destination storage.').waitFor();
      await picture(phone, 'phone');
      await phone.context().close();
    }
    await state(page, 'complete');
    assert.equal(execFileSync('diff', ['-r', join(here.data, 'run42'), join(there.data, 'run42')], { encoding: 'utf8' }), '');
  });

  await step('the keyboard alone opens, submits, pauses and asks before it cancels', async () => {
    const keys = async (...all) => {
      for (const key of all) await page.keyboard.press(key);
    };
    const tabTo = async (locator) => {
      const wanted = await locator.elementHandle();
      for (let i = 0; i < 80; i++) {
        if (await wanted.evaluate((element) => element === document.activeElement)) return;
        await keys('Tab');
      }
      throw new Error('the Tab key does not come there');
    };
    await keys('g', 'j');
    await page.getByRole('heading', { name: 'Jobs' }).waitFor();
    await page.locator('tbody tr').first().waitFor();
    await keys('j', 'Enter');
    await page.getByRole('heading', { name: 'night run 42' }).waitFor();
    await keys('n');
    await page.getByRole('heading', { name: 'New job' }).waitFor();
    await tabTo(page.getByLabel('From, place 1'));
    await page.keyboard.type('here:/data/run42');
    await tabTo(page.getByLabel('To, place'));
    await page.keyboard.type('siteB:/data/again/');
    await tabTo(page.getByLabel('Limit'));
    await page.keyboard.type('1 MB/s');
    await keys('Enter');
    await state(page, 'running');
    await tabTo(page.getByRole('button', { name: 'Pause' }));
    await keys('Space');
    await state(page, 'paused');
    await tabTo(page.getByRole('button', { name: 'Cancel…' }));
    await keys('Enter');
    await page.getByRole('dialog').getByText('Files that have arrived stay at the destination').waitFor();
    await accessible(page, 'a question');
    await keys('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await state(page, 'paused');
    // The focus is back where it was.
    assert.match(await page.evaluate(() => document.activeElement.textContent), /Cancel/);
  });

  await step('each view is a link: what is shown is there again after a reload', async () => {
    await page.getByRole('link', { name: 'Log' }).click();
    await page.getByRole('heading', { name: 'here:/data/run42' }).waitFor();
    await page.getByText('What happened').waitFor();
    await page.reload();
    await page.getByText('What happened').waitFor();
    assert.equal(new URL(page.url()).search, '?tab=log');
  });

  await step('times and units are those that the reader chose', async () => {
    await page.getByRole('button', { name: 'Keys and units' }).click();
    await page.getByLabel('Rates').selectOption('bits');
    await page.getByLabel('Times').selectOption('UTC');
    await page.keyboard.press('Escape');
    await page.getByText('Limit: 8.00 Mbit/s').waitFor();
    await page.getByText(/\d\d:\d\d:\d\d UTC/).first().waitFor();
    await page.reload();
    await page.getByText('Limit: 8.00 Mbit/s').waitFor();
    await page.evaluate(() => localStorage.clear());
  });

  if (out) {
    await step('the overview, with jobs of all kinds', async () => {
      await here.submit('here:/data/run42', 'siteB:/data/frames', '--label', 'detector frames');
      await here.submit('here:/data/run42', 'siteB:/data/slow', '--label', 'mirror', '--limit', '2MB/s');
      await here.submit('here:/data/missing', 'siteB:/data/missing', '--label', 'calibration of May');
      await here.submit('here:/data/calibration', 'siteB:/data/tonight', '--label', 'tonight', '--after', '6h');
      await page.goto(here.url);
      await page.getByText('limited by destination storage').waitFor();
      await page.getByText('limited by the limit that is set').waitFor();
      await picture(page, 'overview', { fullPage: true });
    });
  }

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
