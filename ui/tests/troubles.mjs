// Owns the test of what the page says of troubles: slow storage, a long scan, a lost connection, names that are no text, a copy that changed.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/troubles.mjs
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, api, complaints, idOf, open, state, step, until } from './lib/steps.mjs';
import { signIn, World } from './lib/world.mjs';

const world = await World.start([], { here: 'scan', there: 'writes' });
try {
  const { here, there } = world;
  await here.user('ada', 'admin');
  const browser = await world.browser();
  const page = await open(browser);
  await signIn(page, here.url, 'ada');

  /** A path whose last part is these bytes. */
  const raw = (directory, ...bytes) => Buffer.concat([Buffer.from(`${directory}/`), ...bytes.map((one) => Buffer.from(one))]);

  await step('slow storage at the destination is named, and its stage is marked', async () => {
    here.file('big', 1 << 30);
    const id = await here.submit('here:/data/big', 'siteB:/data/big', '--label', 'big');
    await page.goto(`${here.url}/jobs/${id}`);
    await page.locator('[data-bottleneck="destination storage"]').waitFor();
    await page.getByText('Limited by destination storage.').waitFor();
    const marked = page.locator('li.stage.limits');
    assert.equal(await marked.count(), 1);
    assert.match(await marked.textContent(), /Write|Sync/);
    const { body: job } = await api(page, `/jobs/${id}`);
    assert.equal(job.progress.bottleneck, 'destination storage');
    await accessible(page, 'slow storage');
    await page.goto(here.url);
    await page.getByText('limited by destination storage').first().waitFor();
    await page.goto(`${here.url}/jobs/${id}`);
  });

  await step('the time left is a range when the rate changes', async () => {
    // The page begins again at another limit of the job itself, so the limit of its site varies.
    const rates = [2_000_000, 8_000_000];
    let turns = 0;
    await until('a range', async () => {
      if (turns++ % 60 === 0) {
        const put = await api(page, '/limits/site/siteB', 'PUT', { rate: rates[(turns / 60) & 1] });
        assert.equal(put.status, 200, JSON.stringify(put));
      }
      return /\d.* to .*\d.* left/.test(await page.locator('section[aria-label="State"] .figures').textContent());
    });
    await api(page, '/limits/site/siteB', 'DELETE');
  });

  await step('a lost connection is shown, and that it is back', async () => {
    await there.stop('SIGKILL');
    await page.locator('[data-why="connection_lost"]').waitFor();
    await page.getByText('No connection since').waitFor();
    await page.getByText('no connection', { exact: true }).waitFor();
    await accessible(page, 'a lost connection');
    await page.goto(here.url);
    await page.getByText('No connection since').waitFor();
    await page.goBack();
    await there.start();
    await page.locator('[data-why="connection_lost"]').waitFor({ state: 'detached' });
    await page.locator('[data-rate]:not([data-rate=""])').waitFor();
    await api(page, `/jobs/${idOf(page)}/cancel`, 'POST', {});
    await state(page, 'cancelled');
  });

  await step('a running scan is shown, with the files that it has found', async () => {
    await here.godwit('gen', '8000x1B..2B', join(here.data, 'many'), '--seed', '3');
    await page.goto(here.url);
    // The page itself notes what it showed: a test that asks from outside may come too late.
    await page.evaluate(() => {
      window.shown = new Set();
      setInterval(() => {
        const found = document.querySelector('[data-files]')?.textContent.match(/of at least ([\d ]+) files/)?.[1];
        if (found && document.body.textContent.includes('still scanning')) window.shown.add(Number(found.replace(/\D/g, '')));
      }, 50);
    });
    const id = await here.submit('here:/data/many', 'siteB:/data/many', '--label', 'many');
    await page.getByRole('link', { name: 'many' }).first().click();
    await state(page, 'complete');
    const shown = await page.evaluate(() => [...window.shown]);
    assert.ok(shown.length > 1 && shown.every((count, index) => index === 0 || count > shown[index - 1]), String(shown));
    const { body: job } = await api(page, `/jobs/${id}`);
    assert.equal(job.summary.files, 8000);
  });

  await step('names that are no text are shown, opened, chosen and copied', async () => {
    const odd = join(here.data, 'odd');
    mkdirSync(raw(odd, 'd[\\', [0xff]), { recursive: true });
    writeFileSync(raw(odd, 'caf', [0xe9]), 'one');
    writeFileSync(raw(odd, 'd[\\', [0xff], '/inner'), 'two');
    for (const name of ['plain', 'left']) writeFileSync(join(odd, name), name);
    await page.goto(`${here.url}/new`);
    const from = page.getByRole('region', { name: 'From' });
    await from.getByRole('button', { name: 'data/' }).click();
    await from.getByRole('button', { name: 'odd/' }).click();
    await from.getByRole('button', { name: 'd[\\\\xff/' }).click();
    await from.getByText('inner').waitFor();
    await from.getByRole('button', { name: 'odd', exact: true }).click();
    for (const name of ['caf\\xe9', 'd[\\\\xff', 'plain']) await from.getByRole('checkbox', { name: `Choose ${name}`, exact: true }).check();
    await accessible(page, 'names that are no text');
    await page.getByLabel('To, place').fill('siteB:/data/odd');
    await page.getByRole('button', { name: 'Submit the job' }).click();
    await state(page, 'complete');
    const got = join(there.data, 'odd');
    for (const path of [raw(got, 'caf', [0xe9]), raw(got, 'd[\\', [0xff], '/inner'), raw(got, 'plain')]) assert.ok(existsSync(path), String(path));
    assert.ok(!existsSync(join(got, 'left')));
  });

  await step('a copy is verified by the manifest of its job, and a changed file is found', async () => {
    await here.godwit('gen', '5x1KiB', join(here.data, 'set'), '--seed', '5');
    await page.goto(`${here.url}/new?from=here:/data/set&to=siteB:/data/set`);
    await page.getByLabel('Write a manifest').check();
    await page.getByText('godwit job submit here:/data/set siteB:/data/set --manifest').waitFor();
    await page.getByRole('button', { name: 'Submit the job' }).click();
    await state(page, 'complete');
    const loading = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Manifest' }).click();
    await (await loading).saveAs(join(here.data, 'set.manifest'));
    const verify = async () => {
      await page.goto(`${here.url}/new?to=siteB:/data/set`);
      await page.getByLabel('Kind').selectOption('verify');
      const from = page.getByRole('region', { name: 'From' });
      await from.getByRole('button', { name: 'data/' }).click();
      await from.getByRole('checkbox', { name: 'Choose set.manifest' }).check();
      await page.getByRole('button', { name: 'Submit the job' }).click();
    };
    await verify();
    await state(page, 'complete');
    await page.getByText('All entries are as the manifest says.').waitFor();
    const copy = join(there.data, 'set');
    const names = readdirSync(copy, { recursive: true, encoding: 'utf8' });
    const file = names.map((name) => join(copy, name)).find((name) => statSync(name).isFile());
    // With its exact time: the manifest has that, too.
    const kept = join(there.home, 'kept');
    execFileSync('cp', ['-p', file, kept]);
    writeFileSync(file, 'changed');
    await verify();
    await state(page, 'partial');
    await page.getByRole('link', { name: 'Failures' }).click();
    await page.getByText('A retry checks the copy again.').waitFor();
    execFileSync('cp', ['-p', kept, file]);
    await page.getByRole('button', { name: 'Check again' }).click();
    await state(page, 'complete');
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
