// Owns the test of jobs with several destinations or sources on the page: the form, the row of each, the retry of what failed, a schedule, a flow.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/destinations.mjs. SHOTS=DIRECTORY keeps pictures.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, api, complaints, idOf, open, state, step, until } from './lib/steps.mjs';
import { signIn, World } from './lib/world.mjs';

const BYTES = 24 << 20;
const SMALL = 1 << 10;

const shot = async (page, name) => {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
};

const world = await World.start();
try {
  const { here, there } = world;
  const page = await open(await world.browser());
  const rows = page.getByRole('region', { name: 'Destinations' }).locator('tbody tr');
  const row = (place) => rows.filter({ hasText: place });
  here.file('run/large', BYTES);
  here.file('run/small', SMALL);
  const same = (to) => assert.equal(execFileSync('diff', ['-r', join(here.data, 'run'), to], { encoding: 'utf8' }), '');
  let id;

  await step('the form takes several destinations, and says the same as a command', async () => {
    await here.user('ada', 'admin');
    await signIn(page, here.url, 'ada');
    await page.goto(`${here.url}/new?from=here:/data/run/.&to=siteB:/data/one`);
    await page.getByRole('button', { name: 'Add a destination' }).click();
    await page.getByLabel('To, place 2').fill('siteB:/data/two');
    await page.getByRole('button', { name: 'Add a destination' }).click();
    await page.getByLabel('To, place 3').fill('siteB:/data/three');
    await page.getByText('3 destinations: the source is read once').waitFor();
    await page.getByRole('button', { name: 'Leave out siteB:/data/three' }).click();
    await page.getByLabel('Limit').fill('2 MB/s');
    await page.getByLabel('Label').fill('both');
    await page.getByText("godwit job submit here:/data/run/. --to siteB:/data/one --to siteB:/data/two --label both --limit '2 MB/s'").waitFor();
    await accessible(page, 'several destinations in the form');
    // A directory with something in it stands where a file is to be.
    mkdirSync(join(there.data, 'two/small/full'), { recursive: true });
    writeFileSync(join(there.data, 'two/small/full/file'), 'x');
    await page.getByRole('button', { name: 'Submit the job' }).click();
    await page.getByRole('heading', { name: 'both' }).waitFor();
    id = idOf(page);
    assert.deepEqual((await api(page, `/jobs/${id}`)).body.destinations.total, 2);
  });

  await step('each destination is a row with its figures, and a link to its job', async () => {
    await row('siteB:/data/one').locator('[data-rate]:not([data-rate=""])').waitFor();
    await row('siteB:/data/two').locator('[data-rate]:not([data-rate=""])').waitFor();
    await accessible(page, 'destinations');
    await shot(page, 'destinations');
    await row('siteB:/data/one').getByRole('link').click();
    await page.getByText('Part of', { exact: true }).waitFor();
    await page.getByRole('link', { name: id }).click();
    await until('both rows', async () => (await rows.count()) === 2);
  });

  await step('the job adds up its destinations, and the overview counts them once', async () => {
    const whole = page.locator('section[aria-label="State"]');
    await whole.locator('[data-rate]:not([data-rate=""])').waitFor();
    await whole.getByText('of 50.3 MB', { exact: false }).waitFor();
    const { progress } = (await api(page, `/jobs/${id}`)).body;
    assert.equal(progress.bytes_total, 2 * (BYTES + SMALL));
    assert.ok(progress.bytes_per_second > 0, JSON.stringify(progress));
    await page.goto(here.url);
    await page.getByText('of 2 jobs that move data').waitFor();
    await page.goto(`${here.url}/jobs/${id}`);
  });

  await step('only what is not complete is tried again', async () => {
    assert.equal((await api(page, `/jobs/${id}`, 'PATCH', { limit: 0 })).status, 200);
    await state(page, 'partial');
    assert.equal(await row('siteB:/data/one').getAttribute('data-state'), 'complete');
    assert.equal(await row('siteB:/data/two').getAttribute('data-state'), 'partial');
    await shot(page, 'destinations-partial');
    rmSync(join(there.data, 'two/small'), { recursive: true });
    await page.getByRole('button', { name: 'Retry the one that is not complete' }).click();
    await state(page, 'complete');
    const { jobs } = (await api(page, `/jobs?parent=${id}`)).body;
    const attempts = Object.fromEntries(jobs.map((job) => [job.destination, job.attempts]));
    assert.deepEqual(attempts, { 'siteB:/data/one': 1, 'siteB:/data/two': 2 });
    for (const name of ['one', 'two']) same(join(there.data, name));
  });

  await step('sources of several sites are gathered, and the rows name them', async () => {
    await page.goto(`${here.url}/new?from=here:/data/run&from=siteB:/data/one&to=here:/data/all`);
    const command = 'godwit job submit --from here:/data/run --from siteB:/data/one --to here:/data/all';
    await page.getByText(command).waitFor();
    await page.getByText('2 sources, and a job for each.').waitFor();
    await page.getByRole('combobox', { name: /^Sources/ }).selectOption('newest');
    await page.getByText(`${command} --merge newest`).waitFor();
    await accessible(page, 'several sources in the form');
    await page.getByRole('button', { name: 'Submit the job' }).click();
    await state(page, 'complete');
    await page.getByText('Of files with one name the newest stays.').waitFor();
    const sources = page.getByRole('region', { name: 'Sources' }).locator('tbody tr');
    for (const place of ['here:/data/run', 'siteB:/data/one']) {
      assert.equal(await sources.filter({ hasText: place }).getAttribute('data-state'), 'complete');
    }
    await accessible(page, 'sources');
    same(join(here.data, 'all'));
  });

  await step('a schedule takes several destinations', async () => {
    await page.goto(`${here.url}/schedules`);
    await page.getByRole('button', { name: 'Add a schedule' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Id').fill('nightly');
    await dialog.getByLabel('When').fill('0 22 * * *');
    await dialog.getByLabel('From', { exact: true }).fill('here:/data/run');
    await dialog.getByLabel('To', { exact: true }).fill('siteB:/data/one/\nsiteB:/data/two/\n');
    await dialog.getByRole('button', { name: 'Add the schedule' }).click();
    await page.getByText('here:/data/run → siteB:/data/one/, siteB:/data/two/').waitFor();
    const [made] = (await api(page, '/schedules')).body;
    assert.deepEqual([made.job.destination, ...made.job.more_destinations], ['siteB:/data/one/', 'siteB:/data/two/']);
    // The form of a change has both.
    await page.getByRole('button', { name: /^Change/ }).first().click();
    assert.equal(await dialog.getByLabel('To', { exact: true }).inputValue(), 'siteB:/data/one/\nsiteB:/data/two/');
    await page.keyboard.press('Escape');
  });

  await step('a flow is drawn with the rate, the backlog and the age of each hop', async () => {
    await page.goto(`${here.url}/flows`);
    await page.getByRole('button', { name: 'Add a flow' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Id').fill('pass');
    await dialog.getByLabel('Places').fill('here:/data/run\nhere:/data/mid\nsiteB:/data/end\n');
    await dialog.getByLabel('Limits').fill('none\n2 MB/s');
    await dialog.getByRole('button', { name: 'Add the flow' }).click();
    const hop = (number) => page.locator(`[data-hop="${number}"]`);
    await hop(2).locator('[data-rate]').waitFor();
    await hop(2).locator('[data-oldest]').waitFor();
    await accessible(page, 'a flow');
    await shot(page, 'flow');
    await page.getByRole('button', { name: 'Pause: pass' }).click();
    await page.getByRole('button', { name: 'Resume: pass' }).waitFor();
    const [made] = (await api(page, '/flows')).body;
    assert.equal(made.paused, true);
    assert.deepEqual(made.hops.map((one) => one.job.limit ?? null), [null, 2_000_000]);
    await page.getByRole('button', { name: 'Remove: pass' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the flow' }).click();
    await page.getByRole('button', { name: 'Remove: pass' }).waitFor({ state: 'detached' });
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
