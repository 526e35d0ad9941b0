// Starts two sites with jobs of every kind and writes pictures of each view: `node tests/demo.mjs DIRECTORY [--stay]`.
// With `--stay` it leaves the nodes running until it is interrupted. GODWIT names the binary, DIST a page built elsewhere.
import { mkdirSync, chmodSync } from 'node:fs';
import { join } from 'node:path';
import { serveFrom, signIn, World } from './lib/world.mjs';

const [out = 'pictures', stay] = process.argv.slice(2);
mkdirSync(out, { recursive: true });

const SIZES = { wide: { width: 1440, height: 900 }, middle: { width: 1024, height: 768 }, phone: { width: 390, height: 844 } };

const world = await World.start();
try {
  const { here } = world;
  await here.user('ada', 'admin');
  const browser = await world.browser();

  async function picture(name, path, { size = 'wide', scheme = 'light', act, full = true } = {}) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: SIZES[size], colorScheme: scheme });
    const page = await context.newPage();
    page.on('console', (message) => ['error', 'warning'].includes(message.type()) && console.log(name, message.type(), message.text()));
    page.on('pageerror', (error) => console.log(name, 'pageerror', error.message, error.stack));
    if (process.env.DIST) await serveFrom(page, process.env.DIST);
    await signIn(page, here.url + path, 'ada');
    await page.waitForTimeout(1_500);
    await act?.(page);
    await page.screenshot({ path: join(out, `${name}.png`), fullPage: full });
    await context.close();
  }

  await picture('overview-empty', '/');
  await picture('jobs-empty', '/jobs', { size: 'phone' });

  await here.godwit('gen', '400x1KiB..64KiB,20x1MiB..8MiB', join(here.data, 'run42'), '--seed', '7');
  here.file('big', 600 << 20);
  for (let i = 0; i < 3; i++) here.file(`small/${i}`, 1 << 20);
  here.file('locked/secret', 1 << 20);
  here.file('locked/open', 1 << 20);
  await here.godwit('site', 'add', 'siteC', '127.0.0.1:9', '--identity', await world.there.godwit('id'), '--comment', 'not there');
  await here.submit('here:/data/small', 'siteB:/data/small', '--label', 'small set', '--wait').catch(() => {});
  if (process.getuid() !== 0) chmodSync(join(here.data, 'locked/secret'), 0);
  await here.submit('here:/data/locked', 'here:/data/nothing/../x', '--label', 'bad place').catch(() => {});
  await here.submit('here:/data/missing', 'siteB:/data/missing', '--label', 'missing source').catch(() => {});
  await here.submit('here:/data/small', 'siteC:/data/small', '--label', 'unreachable site');
  const big = await here.submit('here:/data/big', 'siteB:/data/big', '--label', 'night run 42', '--limit', '8MB/s');
  const second = await here.submit('here:/data/run42', 'siteB:/data/run42', '--label', 'detector frames', '--limit', '2MB/s');
  const paused = await here.submit('here:/data/run42', 'siteB:/data/run43', '--label', 'paused copy', '--limit', '1MB/s');
  await here.godwit('job', 'pause', paused);
  await here.submit('here:/data/small', 'siteB:/data/later', '--label', 'tonight', '--after', '6h');
  await new Promise((resolve) => setTimeout(resolve, 12_000));

  for (const [size, scheme] of [['wide', 'light'], ['wide', 'dark'], ['middle', 'light'], ['phone', 'light'], ['phone', 'dark']]) {
    await picture(`overview-${size}-${scheme}`, '/', { size, scheme });
    await picture(`job-${size}-${scheme}`, `/jobs/${big}`, { size, scheme });
  }
  await picture('jobs-wide', '/jobs');
  await picture('jobs-phone', '/jobs', { size: 'phone' });
  await picture('job-second', `/jobs/${second}`);
  await picture('job-attempts', `/jobs/${big}?tab=attempts`);
  await picture('job-log', `/jobs/${big}?tab=log`);
  await picture('job-description', `/jobs/${big}?tab=description`);
  await picture('job-failures', `/jobs/${big}?tab=failures`);
  await picture('new', '/new');
  for (const view of ['sites', 'exports', 'limits', 'schedules', 'flows', 'access', 'users', 'tokens', 'webhooks', 'audit', 'settings', 'nowhere']) {
    await picture(view, `/${view}`, { full: false });
  }
  await picture('add-site', '/sites', { act: (page) => page.getByRole('button', { name: 'Add a site' }).click(), full: false });
  await picture('help', '/', { act: (page) => page.keyboard.press('?'), full: false, scheme: 'dark' });
  if (stay === '--stay') {
    console.log(here.url, 'ada');
    await new Promise((resolve) => process.once('SIGINT', resolve));
  }
} finally {
  await world.stop();
}
