// Owns the test of the page: a browser against real nodes, from the first sign-in to the restart of a node under an open page.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/page.mjs
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accessible, api, complaints, open as openIn, state, step, until } from './lib/steps.mjs';
import { PASSWORD, signIn, World } from './lib/world.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

let browser;
const open = (options) => openIn(browser, options);

const shot = async (page, name) => {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
};

/** The advice of a code, as the document of failures has it. */
const catalogue = readFileSync(join(root, '../docs/failures.md'), 'utf8');
const adviceOf = (code) => catalogue.split('\n').find((line) => line.startsWith(`| \`${code}\` |`)).split(' | ').at(-1).replace(/ \|$/, '');

const world = await World.start();
try {
  const { here, there } = world;
  browser = await world.browser();
  const page = await open();

  await step('the types are those of docs/openapi.json', () => {
    const made = execFileSync('node', [join(root, 'node_modules/openapi-typescript/bin/cli.js'), join(root, '../docs/openapi.json')], { encoding: 'utf8' });
    const committed = readFileSync(join(root, 'src/lib/schema.d.ts'), 'utf8');
    assert.ok(made.trim() === committed.trim(), 'src/lib/schema.d.ts is old: run scripts/ui.sh');
  });

  await step('without a user the page says how to make one', async () => {
    await page.goto(here.url);
    await page.getByRole('heading', { name: 'This node has no user yet' }).waitFor();
    await page.getByText('godwit user add NAME --role admin').first().waitFor();
    await accessible(page, 'sign-in');
  });

  await step('the first sign-in', async () => {
    await here.user('ada', 'admin');
    await here.user('vera', 'viewer');
    await page.goto(here.url);
    await page.getByLabel('Name', { exact: true }).fill('ada');
    await page.getByLabel('Password', { exact: true }).fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('The user or the password is wrong.').waitFor();
    await page.getByText(`What to do: ${adviceOf('wrong_password')}`).waitFor();
    await shot(page, 'advice-problem');
    await signIn(page, here.url, 'ada');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.getByText('Live', { exact: false }).first().waitFor();
  });

  await step('a job is submitted and watched to its end', async () => {
    await here.godwit('gen', '20x1KiB..64KiB,2x1MiB..2MiB', join(here.data, 'run1'), '--seed', '7');
    await page.goto(`${here.url}/jobs`);
    await page.getByText('There are no jobs yet').waitFor();
    await page.keyboard.press('n');
    await page.getByLabel('From, place 1').fill('here:/data/run1');
    await page.getByLabel('To, place').fill('siteB:/data/run1');
    await page.getByLabel('Label').fill('first');
    await page.getByText("godwit job submit here:/data/run1 siteB:/data/run1 --label first").waitFor();
    await accessible(page, 'new job');
    await page.getByRole('button', { name: 'Submit the job' }).click();
    await page.getByRole('heading', { name: 'first' }).waitFor();
    await state(page, 'complete');
    const id = page.url().split('/').pop();
    const { body: job } = await api(page, `/jobs/${id}`);
    assert.equal(job.state, 'complete');
    await page.getByRole('link', { name: 'Attempts' }).click();
    const files = await page.locator('tbody tr td').nth(5).textContent();
    assert.equal(Number(files.replace(/\D/g, '')), job.summary.files);
    assert.equal(Number(await page.locator('tbody td[data-bytes]').getAttribute('data-bytes')), job.summary.bytes);
    assert.equal(execFileSync('diff', ['-r', join(here.data, 'run1'), join(there.data, 'run1')], { encoding: 'utf8' }), '');
  });

  await step('a dry run says what would be done, and does nothing', async () => {
    await page.goto(`${here.url}/new?from=here:/data/run1&to=siteB:/data/dry`);
    await page.getByRole('button', { name: 'Dry run' }).click();
    await state(page, 'complete');
    assert.match(await page.locator('section[aria-label="State"] [data-state]').textContent(), /Dry run$/);
    const list = page.getByRole('region', { name: 'What would be done' });
    await list.locator('[data-summary]').getByText('22 files with', { exact: false }).waitFor();
    const files = list.locator('tr[data-would="send"]');
    await until('each file', async () => (await files.count()) === 22);
    const names = await list.locator('tbody tr td:first-child').allTextContents();
    assert.deepEqual(names, [...names].sort());
    await list.getByLabel('Find').fill(names.at(-1));
    await until('one entry', async () => (await list.locator('tbody tr').count()) === 1);
    await list.getByLabel('Find').fill('');
    await accessible(page, 'a dry run');
    await shot(page, 'dry-run');
    await page.getByText('A dry run, so nothing is changed: 22 files with', { exact: false }).waitFor();
    assert.ok(!existsSync(join(there.data, 'dry')));
  });

  await step('a job brings what its rules and its list leave', async () => {
    mkdirSync(join(here.data, 'chosen/sub'), { recursive: true });
    for (const name of ['a.h5', 'a.tmp', 'sub/b.h5', 'sub/b.tmp']) writeFileSync(join(here.data, 'chosen', name), name);
    writeFileSync(join(here.data, 'chosen/large.h5'), Buffer.alloc(20_000));
    await page.goto(`${here.url}/new?from=here:/data/chosen&to=siteB:/data/chosen`);
    await page.getByText('Which entries').click();
    await page.getByLabel('Rules, one for each line').fill('- *.tmp');
    await page.getByLabel('Largest file').fill('10 kB');
    await page.getByLabel('Only these paths', { exact: false }).fill('sub\na.h5\na.tmp\nlarge.h5');
    await page.getByLabel('Take a directory of that list', { exact: false }).check();
    await page.getByText("--exclude '*.tmp' --max-size '10 kB' --recursive --files-from list", { exact: false }).waitFor();
    await accessible(page, 'which entries');
    if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT, fullPage: true });
    await page.getByRole('button', { name: 'Submit the job' }).click();
    await state(page, 'complete');
    const came = execFileSync('find', ['.', '-type', 'f'], { cwd: join(there.data, 'chosen'), encoding: 'utf8' });
    assert.deepEqual(came.trim().split('\n').sort(), ['./a.h5', './sub/b.h5']);
  });

  await step('both sites are looked around at, and a place is chosen by hand', async () => {
    await page.goto(`${here.url}/new`);
    const from = page.getByRole('region', { name: 'From' });
    await from.getByRole('button', { name: 'data/' }).click();
    await from.getByRole('checkbox', { name: 'Choose run1' }).check();
    assert.equal(await from.getByLabel('From, place 1').inputValue(), 'here:/data/run1');
    const to = page.getByRole('region', { name: 'To', exact: true });
    await to.getByLabel('Browse').selectOption('siteB');
    await to.getByRole('button', { name: 'data/' }).click();
    await to.getByRole('button', { name: 'New directory' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('a + b');
    await page.getByRole('dialog').getByRole('button', { name: 'Make the directory' }).click();
    await to.getByText('This directory is empty.').waitFor();
    await to.getByRole('button', { name: 'Copy into this directory' }).click();
    assert.equal(await to.getByLabel('To, place').inputValue(), 'siteB:/data/a + b/');
    assert.ok(existsSync(join(there.data, 'a + b')));
    await accessible(page, 'the panes');
  });

  await step('a directory of many entries is read page by page, and from any name on', async () => {
    mkdirSync(join(here.data, 'wide'));
    for (let i = 0; i < 1100; i++) writeFileSync(join(here.data, 'wide', `entry-${String(i).padStart(4, '0')}`), '');
    await page.goto(`${here.url}/new`);
    const from = page.getByRole('region', { name: 'From' });
    await from.getByRole('button', { name: 'data/' }).click();
    await from.getByRole('button', { name: 'wide/' }).click();
    const rows = from.locator('tbody tr');
    await until('a page', async () => (await rows.count()) === 500);
    await from.getByRole('button', { name: 'Show 500 more' }).click();
    await until('two pages', async () => (await rows.count()) === 1000);
    await from.getByLabel('Names from').fill('entry-1050');
    await from.getByLabel('Names from').press('Tab');
    await until('the last ones', async () => (await rows.count()) < 51 && (await rows.last().textContent()).includes('entry-1099'));
  });

  let big;
  await step('a limit is named as what limits, and the rate follows another one', async () => {
    here.file('big', 1 << 30);
    big = await here.submit('here:/data/big', 'siteB:/data/big', '--label', 'big', '--limit', '4MB/s');
    await page.goto(`${here.url}/jobs/${big}`);
    await page.locator('[data-bottleneck="limit"]').waitFor();
    await page.getByText('Limited by the limit that is set.').waitFor();
    const rate = async () => Number(await page.locator('[data-rate]').getAttribute('data-rate'));
    const slow = await until('a rate near 4 MB/s', async () => (await rate()) > 1e6 && rate());
    assert.ok(slow < 6e6, `${slow}`);
    // The slider acts at once; four steps of it are some 12 MB/s.
    await page.getByLabel('Limit:').focus();
    for (let i = 0; i < 20; i++) await page.keyboard.press('ArrowRight');
    const { body: job } = await until('the limit at the node', async () => {
      const answer = await api(page, `/jobs/${big}`);
      return answer.body.limit > 8e6 && answer;
    });
    assert.ok(job.limit < 20e6, `${job.limit}`);
    await until('the rate near its new limit', async () => (await rate()) > 0.6 * job.limit);
    const number = page.getByLabel('Limit as a number');
    await number.fill('3 apples');
    await page.getByRole('button', { name: 'Set' }).click();
    await page.getByText('`3 apples` is not a rate').waitFor();
    assert.equal(await number.inputValue(), '3 apples');
    await number.fill('24Mbps');
    await page.getByRole('button', { name: 'Set' }).click();
    await until('megabits at the node', async () => (await here.job(big)).limit === 3e6);
    await until('the rate back', async () => (await rate()) < 5e6 && (await rate()) > 0);
    await accessible(page, 'a running job');
    await page.getByLabel('Priority').fill('7');
    await page.getByLabel('Priority').press('Enter');
    await until('the priority at the node', async () => (await here.job(big)).priority === 7);
  });

  await step('rate, streams, RTT and what was sent again are drawn over time, and there is a report', async () => {
    await page.getByRole('heading', { name: 'Over time' }).waitFor();
    for (const title of ['Rate', 'Streams', 'RTT', 'Sent again']) {
      const plot = page.locator('figure').filter({ has: page.getByText(title, { exact: true }) });
      await plot.locator('canvas').waitFor();
    }
    const host = page.locator('section[data-host]');
    const { body: samples } = await api(page, `/jobs/${big}/samples`);
    const figures = samples.at(-1).host;
    const cores = Object.keys(figures).filter((name) => name.startsWith('cpu_core_')).length;
    for (const title of ['Processors busy', cores === 1 ? 'The one core busy' : `Each of ${cores} cores busy`, 'Memory available', 'Network of the machine']) {
      const plot = host.locator('figure').filter({ has: page.getByText(title, { exact: true }) });
      await plot.locator('canvas').waitFor();
    }
    const readout = async (title) => host.locator('figure').filter({ has: page.getByText(title, { exact: true }) }).locator('.readout').textContent();
    assert.match(await readout('Processors busy'), /user \d+ %.*system \d+ %/s);
    assert.match(await readout('Memory available'), /\d [MG]i?B/);
    assert.match(await readout('Network of the machine'), /sent .*\/s.*received .*\/s/s);
    const choice = host.locator('select');
    await until('the host of the other end', async () => (await choice.locator('option').count()) === 2);
    await choice.selectOption('siteB (other end)');
    await page.locator('section[data-end="other"]').getByRole('heading', { name: 'Host of siteB (other end)' }).waitFor();
    for (const title of ['Processors busy', 'Memory available', 'Network of the machine']) {
      await host.locator('figure').filter({ has: page.getByText(title, { exact: true }) }).locator('canvas').waitFor();
    }
    await accessible(page, 'the host of a job');
    await shot(page, 'host');
    const report = await page.evaluate(async (id) => (await fetch(`/api/v1/jobs/${id}/report.html`)).status, big);
    assert.equal(report, 200);
    assert.match(await page.getByRole('link', { name: 'Report', exact: true }).getAttribute('href'), /report\.html$/);
  });

  await step('pause and resume', async () => {
    await page.getByRole('button', { name: 'Pause' }).click();
    await state(page, 'paused');
    assert.equal((await here.job(big)).state, 'paused');
    await page.getByRole('button', { name: 'Resume' }).click();
    await state(page, 'running');
  });

  await step('the node is restarted under an open page', async () => {
    await here.stop('SIGKILL');
    await page.getByText('Not connected').waitFor();
    await page.getByText('not live').first().waitFor();
    await here.start();
    await page.getByText('Live', { exact: false }).first().waitFor();
    await page.locator('[data-rate]:not([data-rate=""])').waitFor();
  });

  await step('a failing file is shown, and retried', async () => {
    for (const name of ['one', 'two']) here.file(`mixed/${name}`, 1 << 16);
    // A directory with something in it stands where a file is to be.
    mkdirSync(join(there.data, 'mixed/two/full'), { recursive: true });
    writeFileSync(join(there.data, 'mixed/two/full/file'), 'x');
    const id = await here.submit('here:/data/mixed/.', 'siteB:/data/mixed', '--label', 'mixed');
    await page.goto(`${here.url}/jobs/${id}?tab=failures`);
    await state(page, 'partial');
    await page.getByText('1 entry failed.').waitFor();
    await page.getByText('/two').first().waitFor();
    const [group] = (await api(page, `/jobs/${id}/failures`)).body;
    const advice = page.locator(`.panel [data-advice="${group.reason.code}"]`);
    assert.ok((await advice.textContent()).includes(adviceOf(group.reason.code)));
    assert.match(await advice.textContent(), /At fault: .*\. A retry /);
    const why = page.locator('section[aria-label="State"] [data-advice]');
    assert.ok((await why.textContent()).includes(adviceOf((await here.job(id)).reason.code)));
    await accessible(page, 'failures');
    await shot(page, 'advice-failures');
    await page.goto(here.url);
    await page.getByRole('heading', { name: 'Needs attention' }).waitFor();
    await page.goto(`${here.url}/jobs/${id}?tab=failures`);
    rmSync(join(there.data, 'mixed/two'), { recursive: true });
    await page.getByRole('button', { name: 'Retry these' }).click();
    await state(page, 'complete');
    await page.getByText('No entry failed.').waitFor();
  });

  await step('what turns the direction of a text or hides in it is shown as an escape', async () => {
    const label = 'in\u202egpj.exe\u200b';
    const escaped = 'in\\u{202e}gpj.exe\\u{200b}';
    here.file(`turned/${label}`, 1 << 10);
    const id = await here.submit('here:/data/turned', 'siteB:/data/turned', '--label', label);
    await page.goto(`${here.url}/jobs/${id}`);
    await page.getByText(escaped).first().waitFor();
    await page.goto(`${here.url}/jobs`);
    await page.locator('tbody tr').filter({ hasText: escaped }).waitFor();
    await page.goto(`${here.url}/new`);
    await page.getByRole('button', { name: 'data/' }).first().click();
    await page.getByRole('button', { name: 'turned/' }).first().click();
    await page.getByText(escaped).first().waitFor();
    assert.doesNotMatch(await page.locator('body').innerText(), /[\u202a-\u202e\u2066-\u2069\u200b]/);
    // The node keeps the name itself.
    assert.equal((await here.job(id)).label, label);
  });

  await step('a job is found by its label, and its filter is a link', async () => {
    await page.goto(`${here.url}/jobs`);
    await page.locator('tbody tr').nth(1).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('mix');
    await page.locator('tbody tr').filter({ hasText: 'mixed' }).waitFor();
    await until('one row', async () => (await page.locator('tbody tr').count()) === 1);
    assert.match(page.url(), /label=mix/);
    await page.reload();
    await until('one row', async () => (await page.locator('tbody tr').count()) === 1);
    await page.getByLabel('Name of the view').fill('mixed ones');
    await page.getByRole('button', { name: 'Save the view' }).click();
    await page.goto(`${here.url}/jobs`);
    await page.getByRole('link', { name: 'mixed ones' }).click();
    await until('one row', async () => (await page.locator('tbody tr').count()) === 1);
  });

  await step('a job that waits after a failure is tried now', async () => {
    const identity = await there.godwit('id');
    const put = await api(page, '/sites/siteD', 'PUT', { addresses: ['127.0.0.1:9'], identity });
    assert.ok(put.status < 300, JSON.stringify(put));
    const id = await here.submit('here:/data/run1', 'siteD:/data/run1', '--label', 'away');
    await page.goto(`${here.url}/jobs/${id}`);
    const now = page.getByRole('button', { name: 'Try now' });
    await now.waitFor();
    await page.locator('section[aria-label="State"] [data-advice="unreachable"]').getByText(adviceOf('unreachable')).waitFor();
    await shot(page, 'try-now');
    const { body: before } = await api(page, `/jobs/${id}`);
    await now.click();
    await until('one more attempt', async () => (await here.job(id)).attempts > before.attempts);
    await page.getByText(`Job ${id} is tried now.`).waitFor();
    await here.godwit('job', 'cancel', id);
    await state(page, 'cancelled');
    assert.equal(await now.count(), 0);
    await api(page, '/sites/siteD', 'DELETE');
  });

  await step('several jobs are chosen and changed; a refusal names its job and stops no other', async () => {
    const ids = [];
    for (const name of ['c1', 'c2', 'c3']) ids.push(await here.submit('here:/data/big', `siteB:/data/${name}`, '--label', `chosen ${name}`, '--limit', '1MB/s'));
    await page.goto(`${here.url}/jobs?label=chosen`);
    const row = (id) => page.locator(`tr[data-job="${id}"]`);
    const in_state = (id, name) => row(id).locator(`[data-state="${name}"]`).waitFor();
    for (const id of ids) await row(id).waitFor();
    const bar = page.getByRole('group', { name: 'Chosen jobs' });
    await page.getByRole('checkbox', { name: `Choose job ${ids[0]}` }).check();
    await bar.getByText('1 job chosen').waitFor();
    await page.getByRole('checkbox', { name: 'Choose all jobs of this list' }).check();
    await bar.getByText('3 jobs chosen').waitFor();
    await accessible(page, 'chosen jobs');
    await shot(page, 'chosen');
    // The second one ends between the look of the page and the request.
    const second = `**/api/v1/jobs/${ids[1]}/pause`;
    await page.route(second, async (route) => {
      await here.godwit('job', 'cancel', ids[1]);
      await route.continue();
    });
    await bar.getByRole('button', { name: 'Pause 3' }).click();
    for (const id of [ids[0], ids[2]]) await in_state(id, 'paused');
    const refused = page.getByRole('alert').locator('li');
    await refused.waitFor();
    assert.equal(await refused.count(), 1);
    assert.equal(await refused.getAttribute('data-refused'), ids[1]);
    assert.ok((await refused.textContent()).includes(ids[1]));
    await page.unroute(second);
    await shot(page, 'chosen-refused');
    await bar.getByRole('button', { name: 'Resume 2' }).click();
    await until('both go on', async () => (await Promise.all([ids[0], ids[2]].map((id) => here.job(id)))).every((job) => job.state !== 'paused'));
    await bar.getByRole('button', { name: 'Retry 1' }).click();
    await until('it is tried again', async () => (await here.job(ids[1])).state !== 'cancelled');
    await bar.getByRole('button', { name: 'Cancel 3…' }).click();
    await page.getByRole('dialog').getByText('"chosen c2"', { exact: false }).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel 3 jobs' }).click();
    for (const id of ids) await in_state(id, 'cancelled');
    await page.getByText('3 jobs are cancelled.').waitFor();
  });

  await step('a site is added and removed after a question', async () => {
    await page.goto(`${here.url}/sites`);
    await page.getByRole('button', { name: 'Add a site' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('siteC');
    await dialog.getByLabel('Addresses').fill('127.0.0.1:9');
    await dialog.getByLabel('Identity').fill(await there.godwit('id'));
    await accessible(page, 'a form');
    await dialog.getByRole('button', { name: 'Add the site' }).click();
    // No node listens there, and the page says so at once.
    await page.getByText('siteC: ', { exact: false }).first().waitFor();
    // A site that is known is tested when the reader asks.
    await page.getByRole('button', { name: 'Test: siteB' }).click();
    await page.getByText('siteB answers. You may use data (read, write).').waitFor();
    await page.getByRole('button', { name: 'Remove: siteC' }).click();
    await page.getByRole('dialog').getByText('Jobs that name this site fail').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the site' }).click();
    await page.getByRole('button', { name: 'Remove: siteC' }).waitFor({ state: 'detached' });
    assert.equal((await api(page, '/sites/siteC')).status, 404);
  });

  await step('the key of a new webhook is shown once, and events of sites stay when it is changed', async () => {
    await page.goto(`${here.url}/webhooks`);
    await page.getByRole('button', { name: 'Add a webhook' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Id').fill('chat');
    await dialog.getByLabel('Address').fill('https://chat.example.org/godwit');
    await dialog.getByLabel('a site is away').check();
    await dialog.getByRole('button', { name: 'Add the webhook' }).click();
    const key = page.locator('pre').getByText('whsec_', { exact: false });
    await key.waitFor();
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByRole('button', { name: 'Change: chat' }).click();
    await page.getByRole('dialog').getByLabel('Disabled').check();
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('cell', { name: 'disabled' }).waitFor();
    const [hook] = (await api(page, '/webhooks')).body;
    assert.deepEqual([hook.events, hook.disabled], [['site_away'], true]);
    assert.equal(await key.count(), 0);
    await page.getByRole('button', { name: 'Remove: chat' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove the webhook' }).click();
    await page.getByRole('button', { name: 'Remove: chat' }).waitFor({ state: 'detached' });
  });

  for (const scheme of ['light', 'dark']) {
    await step(`every view, ${scheme}, on a phone and on a screen`, async () => {
      const other = await open({ width: 390, height: 844, scheme });
      await signIn(other, here.url, 'ada');
      const views = ['/', '/jobs', `/jobs/${big}`, `/jobs/${big}?tab=log`, '/new', '/cluster', '/sites', '/exports', '/limits', '/schedules', '/flows', '/access', '/users', '/tokens', '/account', '/webhooks', '/audit', '/settings', '/nowhere'];
      for (const view of views) {
        await other.setViewportSize({ width: 390, height: 844 });
        await other.goto(here.url + view);
        await other.locator('main :is(h1, h3)').first().waitFor();
        const wide = await other.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${view} is ${wide} pixels too wide for a phone`);
        if (scheme === 'dark') await other.setViewportSize({ width: 1440, height: 900 });
        await accessible(other, `${view}, ${scheme}`);
      }
      await other.context().close();
    });
  }

  await step('a viewer sees no action that the node refuses', async () => {
    const other = await open();
    await signIn(other, `${here.url}/jobs/${big}`, 'vera');
    await other.getByRole('heading', { name: 'big' }).waitFor();
    for (const name of ['Pause', 'Resume', 'Cancel…', 'Retry', 'Set']) assert.equal(await other.getByRole('button', { name, exact: true }).count(), 0, name);
    for (const name of ['New job', 'Users', 'Tokens', 'Audit log']) assert.equal(await other.getByRole('link', { name }).count(), 0, name);
    await other.goto(`${here.url}/jobs/${big}?tab=log`);
    await other.getByText('godwit access allow user:vera --list').waitFor();
    assert.equal(await other.getByRole('link', { name: 'Report' }).count(), 0);
    await other.goto(`${here.url}/sites`);
    await other.getByRole('rowheader', { name: 'siteB' }).waitFor();
    assert.equal(await other.getByRole('button', { name: 'Add a site' }).count(), 0);
    assert.equal((await api(other, `/jobs/${big}/pause`, 'POST')).status, 403);
    await other.goto(`${here.url}/jobs`);
    await other.locator('tr[data-job]').first().waitFor();
    assert.equal(await other.getByRole('checkbox').count(), 0);
    await other.goto(`${here.url}/cluster`);
    await other.locator('tr[data-node]').waitFor();
    assert.equal(await other.locator('main').getByRole('button').count(), 0);
    await other.context().close();
  });

  await step('a viewer changes the password, which ends the other sessions', async () => {
    const [here2, there2] = [await open(), await open()];
    for (const one of [here2, there2]) await signIn(one, `${here.url}/account`, 'vera');
    await here2.getByText('session, this one').waitFor();
    await accessible(here2, 'the account');
    const change = async (current, again) => {
      await here2.getByRole('button', { name: 'Change the password…' }).click();
      const dialog = here2.getByRole('dialog');
      await dialog.getByLabel('Current password').fill(current);
      await dialog.getByLabel('New password', { exact: true }).fill('battery staple');
      await dialog.getByLabel('New password again').fill(again);
      await dialog.getByRole('button', { name: 'Change the password' }).click();
      return dialog;
    };
    let dialog = await change(PASSWORD, 'battery stable');
    await dialog.getByText('The two new passwords differ.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    dialog = await change('wrong horse', 'battery staple');
    await dialog.getByText('The password is wrong.').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await change(PASSWORD, 'battery staple');
    await here2.getByText('The password is changed.').waitFor();
    assert.equal((await api(here2, '/account')).status, 200);
    assert.equal((await api(there2, '/account')).status, 401);
    for (const one of [here2, there2]) await one.context().close();
  });

  await step('a job is cancelled after a question, and the session ends', async () => {
    await page.goto(`${here.url}/jobs/${big}`);
    await page.getByRole('button', { name: 'Cancel…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click();
    await state(page, 'cancelled');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    assert.equal((await api(page, '/jobs')).status, 401);
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
