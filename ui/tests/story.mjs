// Owns the comparison of the pages of jobs of the same files between sites of three nodes: one that all nodes divide, one that one node
// runs, and one that is paused and loses a node.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/story.mjs. SHOTS=DIRECTORY keeps pictures.
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, api, complaints, open, state, step, until } from './lib/steps.mjs';
import { signIn, World } from './lib/world.mjs';

const FILES = 120;
const BYTES = 500_000;
const TOTAL = FILES * BYTES;
const LIMIT = 4e6;

const shot = async (page, name) => {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
};

/** Files and bytes below a directory, as rsync would count them. */
function counted(directory) {
  const paths = readdirSync(directory, { recursive: true }).map((name) => statSync(join(directory, name)));
  const files = paths.filter((one) => one.isFile());
  return { files: files.length, bytes: files.reduce((sum, one) => sum + one.size, 0) };
}

/** The statements on the page of a running job, without the figures themselves. */
const statements = (page) =>
  page.evaluate(() => {
    const texts = (where) => [...document.querySelectorAll(where)].map((one) => one.textContent.trim());
    const one = (where) => document.querySelector(where);
    const pipeline = 'section[aria-labelledby="pipeline"]';
    const measured = [...document.querySelectorAll(`${pipeline} li.stage`)].filter((stage) => stage.querySelector('.bar:not(.none)'));
    return {
      facts: texts('dl.facts dt'),
      rate: Number(one('[data-rate]')?.dataset.rate) > 0,
      left: /\d.* left/.test(one('.figures')?.textContent ?? ''),
      ends: one('[data-forecast]') !== null,
      done: one('.done')?.textContent.includes(' of 60.0 MB') ?? false,
      files: one('[data-files]')?.dataset.files,
      limited: one('[data-bottleneck]') !== null,
      stages: texts(`${pipeline} li.stage .name`),
      measured: measured.map((stage) => stage.querySelector('.name').textContent),
      channels: document.querySelectorAll(`${pipeline} tbody tr`).length > 0,
      plots: texts('figure figcaption strong').sort(),
      ends_with_hosts: [...new Set([...document.querySelectorAll('section[data-host] option')].map((host) => (/other end/.test(host.textContent) ? 'other' : 'own')))].sort(),
    };
  });

const world = await World.start();
try {
  const { here, there } = world;
  await here.user('ada', 'admin');
  await world.join('dtn2');
  const third = await world.join('dtn3');
  // Each node of the source has a node of the destination.
  await world.joinThere('b2');
  await world.joinThere('b3');
  await until('all nodes of the destination are up', async () => {
    const { nodes } = JSON.parse(await there.godwit('cluster', 'status', '--json'));
    return nodes.filter((node) => node.state === 'up').length === 3;
  });
  const browser = await world.browser();
  const page = await open(browser);
  await signIn(page, here.url, 'ada');
  for (let i = 0; i < FILES; i++) here.file(`set/d${i % 12}/f${i}`, BYTES);

  /** Runs the job, and gives what its page states once everything is known, and at its end. */
  async function statementsOf(name, divide, nodes) {
    const id = await here.submit('here:/data/set', `siteB:/data/${name}`, '--label', name, '--limit', `${LIMIT}`, '--divide', divide);
    await page.goto(`${here.url}/jobs/${id}`);
    const full = ({ rate, left, ends, done, files, limited, channels, ends_with_hosts }) =>
      rate && left && ends && done && files === `${FILES}` && limited && channels && ends_with_hosts.length === 2;
    const running = await until(`all statements of the job ${name}`, async () => {
      const now = await statements(page);
      const { body: job } = await api(page, `/jobs/${id}`);
      assert.equal(job.ended ?? null, null, `too early: ${JSON.stringify(now)}`);
      return full(now) && now.plots.length > 4 && (job.progress.nodes ?? []).length === nodes && now;
    });
    const { body: job } = await api(page, `/jobs/${id}`);
    const bytes = Number(await page.locator('[data-bytes]').getAttribute('data-bytes'));
    assert.ok(bytes > 0 && bytes <= TOTAL, `${bytes}`);
    const rate = Number(await page.locator('[data-rate]').getAttribute('data-rate'));
    assert.ok(rate < 1.5 * LIMIT, `${rate}`);
    // Each node has its rate; together they are the job.
    if (nodes > 0) {
      const sum = job.progress.nodes.reduce((all, node) => all + node.bytes_per_second, 0);
      assert.ok(Math.abs(sum - job.progress.bytes_per_second) <= 0.01 * sum, `${sum}: ${job.progress.bytes_per_second}`);
    }
    await accessible(page, `the job ${name}`);
    await shot(page, `story-${name}`);
    await here.godwit('job', 'limit', id, 'none');
    await page.locator('[data-moved]').waitFor();
    const moved = Number(await page.locator('[data-moved]').getAttribute('data-moved'));
    const copy = counted(join(there.data, name));
    assert.deepEqual(copy, { files: FILES, bytes: TOTAL });
    assert.equal(moved, copy.bytes);
    const after = await page.evaluate(() => [...document.querySelectorAll('dl.facts dt')].map((one) => one.textContent.trim()));
    return { running, after };
  }

  let lone;
  await step('the page of a job of one node states everything', async () => {
    lone = await statementsOf('lone', 'never', 0);
    assert.ok(lone.running.measured.length >= 4, JSON.stringify(lone.running));
  });

  await step('the page of a divided job states the same', async () => {
    const divided = await statementsOf('divided', 'always', 3);
    assert.deepEqual(divided, lone);
  });

  await step('each node of a divided job has a row: its rate, and the node that it sends to', async () => {
    // Parts of one large file go to all nodes. One node has the files of a small directory alone.
    const id = await here.submit('here:mem:64GiB', 'siteB:null:', '--label', 'rows', '--limit', '30MB', '--divide', 'always');
    await page.goto(`${here.url}/jobs/${id}`);
    const rows = page.locator('section[aria-labelledby="nodes"] tr[data-node]');
    const cells = await until('three nodes send to three others', async () => {
      const all = await rows.evaluateAll((found) => found.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
      const receivers = new Set(all.map(([, to]) => to));
      return all.length === 3 && receivers.size === 3 && all.every(([, to, rate]) => to.startsWith('siteB.') && /^[1-9]/.test(rate)) && all;
    });
    assert.equal(new Set(cells.map(([name]) => name)).size, 3, JSON.stringify(cells));
    await here.godwit('job', 'cancel', id);
  });

  await step('the page of a divided job that is paused and loses a node counts each byte once', async () => {
    const id = await here.submit('here:/data/set', 'siteB:/data/hurt', '--label', 'hurt', '--limit', '2MB', '--divide', 'always');
    await page.goto(`${here.url}/jobs/${id}`);
    const shown = async () => Number(await page.locator('[data-bytes]').getAttribute('data-bytes'));
    await until('a tenth', async () => (await shown()) >= TOTAL / 10);
    await here.godwit('job', 'pause', id);
    await state(page, 'paused');
    // A paused job has no rate and no time left.
    assert.equal(await page.locator('[data-rate]').count(), 0);
    assert.equal((await page.locator('.figures').textContent()).trim(), '');
    await here.godwit('job', 'resume', id);
    await until('a quarter', async () => (await shown()) >= TOTAL / 4);
    await third.stop('SIGKILL');
    await until('it goes on', async () => (await shown()) >= TOTAL / 2);
    await here.godwit('job', 'limit', id, 'none');
    await page.locator('[data-moved]').waitFor();
    const copy = counted(join(there.data, 'hurt'));
    assert.deepEqual(copy, { files: FILES, bytes: TOTAL });
    assert.equal(Number(await page.locator('[data-moved]').getAttribute('data-moved')), copy.bytes);
    await page.goto(`${here.url}/jobs/${id}?tab=attempts`);
    const bytes = page.locator('td[data-bytes]');
    await until('both attempts', async () => (await bytes.count()) >= 2);
    const sum = (await bytes.evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.bytes)))).reduce((all, one) => all + one, 0);
    assert.equal(sum, copy.bytes);
    await shot(page, 'story-hurt');
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
