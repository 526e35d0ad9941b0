// Owns the comparison of the pages of two jobs of the same files: one that three nodes divide, and one that one node runs.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/story.mjs. SHOTS=DIRECTORY keeps pictures.
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, api, complaints, open, step, until } from './lib/steps.mjs';
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

/** What the page of a running job states, without the figures themselves. */
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
  await world.join('dtn3');
  const browser = await world.browser();
  const page = await open(browser);
  await signIn(page, here.url, 'ada');
  for (let i = 0; i < FILES; i++) here.file(`set/d${i % 12}/f${i}`, BYTES);

  /** Runs the job, and gives what its page states once everything is known, and at its end. */
  async function told(name, divide, nodes) {
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
    lone = await told('lone', 'never', 0);
    assert.ok(lone.running.measured.length >= 4, JSON.stringify(lone.running));
  });

  await step('the page of a divided job states the same', async () => {
    const divided = await told('divided', 'always', 3);
    assert.deepEqual(divided, lone);
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
