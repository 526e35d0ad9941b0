// Owns the test of the panel of the transfer buffer: contents, hits, pins, and a volume that could not be opened.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/buffer.mjs. SHOTS=DIRECTORY keeps pictures.
import assert from 'node:assert/strict';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, api, complaints, open, step, until } from './lib/steps.mjs';
import { signIn, World } from './lib/world.mjs';

const BYTES = 8 << 20;

const world = await World.start();
try {
  const { here } = world;
  const page = await open(await world.browser());
  const flash = join(world.directory, 'flash');
  const panel = page.getByRole('region', { name: 'Transfer buffer' });
  const again = async (...paths) => {
    await here.stop();
    here.once = [...paths.flatMap((path) => ['--buffer-path', path]), '--buffer-bytes', `${48 * paths.length}MiB`];
    await here.start();
    await page.goto(`${here.url}/exports`);
  };
  const number = async (selector, name) => Number(await panel.locator(selector).getAttribute(name));
  // A file that changed just now is not taken.
  const hourAgo = new Date(Date.now() - 3_600_000);
  utimesSync(here.file('run/large', BYTES), hourAgo, hourAgo);

  await step('a node without a buffer shows none', async () => {
    await here.user('ada', 'admin');
    await signIn(page, here.url, 'ada');
    await page.goto(`${here.url}/exports`);
    await page.getByRole('cell', { name: 'data', exact: true }).waitFor();
    await api(page, '/buffer');
    assert.equal(await panel.count(), 0);
  });

  await step('the panel says what the buffer holds, serves and keeps', async () => {
    await again(flash);
    await panel.waitFor();
    await here.submit('here:/data/run', 'siteB:/data/one', '--wait');
    await until('all of it is on flash', async () => (await number('[data-content="clean"]', 'data-bytes')) >= BYTES);
    await here.submit('here:/data/run', 'siteB:/data/two', '--wait');
    await until('the second copy comes from flash', async () => (await number('[data-hits]', 'data-hits')) >= BYTES);
    assert.notEqual(await panel.locator('[data-oldest]').getAttribute('data-oldest'), '');
    await here.godwit('buffer', 'pin', 'here:/data/run');
    await until('the pin', async () => (await number('[data-pinned]', 'data-pinned')) === 1);
    assert.ok((await number('[data-content="kept"]', 'data-bytes')) >= BYTES);
    assert.equal(await panel.locator('[data-volume="well"]').count(), 1);
    await accessible(page, 'the transfer buffer');
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, 'buffer.png'), fullPage: true });
  });

  await step('a volume that could not be opened is shown with its reason', async () => {
    const strange = join(world.directory, 'strange');
    mkdirSync(strange);
    writeFileSync(join(strange, 'stranger'), 'data of others');
    await again(flash, strange);
    await panel.locator('[data-volume="closed"]').getByText('the directory is not empty').waitFor();
    assert.equal(await panel.locator('[data-volume="well"]').count(), 1);
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
