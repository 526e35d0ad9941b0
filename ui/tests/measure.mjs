// Measures the page with 50 running jobs and prints rows for docs/performance/results/page.tsv:
// GODWIT=target/release/godwit node ui/tests/measure.mjs
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serveFrom, signIn, World } from './lib/world.mjs';

const dist = join(dirname(fileURLToPath(import.meta.url)), '../dist');
const JOBS = 50;
const WATCHED_S = 20;

const row = (...cells) => console.log(cells.join('\t'));
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1_000));

/** Processor seconds of a process so far. */
function processor(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const world = await World.start(['--jobs', '64']);
try {
  const { here } = world;
  await here.user('ada', 'admin');
  here.file('big', 64 << 20);
  await Promise.all(Array.from({ length: JOBS }, (_, i) => here.submit('here:/data/big', `siteB:/data/copy${i}`, '--label', `job ${i}`, '--limit', '200kB/s')));
  let running = 0;
  while (running < JOBS) {
    const list = await here.godwit('job', 'list', '--json', '--state', 'running');
    running = list.split('\n').filter(Boolean).length;
    await pause(1);
  }

  const index = readFileSync(join(dist, 'index.html'), 'utf8');
  const names = ['index.html', ...[...index.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => match[1])];
  const sum = (suffix) => names.reduce((all, name) => all + readFileSync(join(dist, name + suffix)).length, 0);
  row('first view, gzip', sum('.gz'), 'bytes', 'wanted: at most 300,000');
  row('first view, brotli', sum('.br'), 'bytes', '');

  await pause(5);
  const before = processor(here.child.pid);
  await pause(WATCHED_S);
  const alone = (processor(here.child.pid) - before) / WATCHED_S;

  const browser = await world.browser();
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  if (process.env.DIST) await serveFrom(page, process.env.DIST);
  await page.addInitScript(() => {
    window.blocked = 0;
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const task of list.getEntries()) {
        window.blocked += Math.max(0, task.duration - 50);
        window.longest = Math.max(window.longest, task.duration);
      }
    }).observe({ type: 'longtask', buffered: true });
  });
  await signIn(page, here.url, 'ada');
  const cdp = await context.newCDPSession(page);
  const heap = async () => {
    await cdp.send('HeapProfiler.collectGarbage');
    return (await cdp.send('Runtime.getHeapUsage')).usedSize;
  };
  for (const [name, path] of [['overview', '/'], ['jobs', '/jobs']]) {
    await page.goto(here.url + path);
    await page.locator('tbody tr').nth(JOBS - 1).waitFor();
    const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
    row(`${name}, first contentful paint`, Math.round(paint), 'ms', 'wanted: under 1,000');
    const loaded = await page.evaluate(() => window.blocked);
    const [used, then] = [await heap(), processor(here.child.pid)];
    const sampled = await page.evaluate(() => window.blocked);
    await pause(WATCHED_S);
    const blocked = await page.evaluate(() => window.blocked);
    const open = (processor(here.child.pid) - then) / WATCHED_S;
    row(`${name}, main thread blocked while it loads`, Math.round(loaded), 'ms', 'wanted: under 100');
    row(`${name}, main thread blocked in ${WATCHED_S} s with ${JOBS} running jobs`, Math.round(blocked - sampled), 'ms', 'wanted: under 100');
    row(`${name}, heap after ${WATCHED_S} s`, (await heap()) - used, 'bytes more', '');
    row(`${name}, processor of the node while the page is open`, ((open - alone) * 100).toFixed(1), '% of a core more', 'wanted: under 1');
  }
  row('processor of the node without a page', (alone * 100).toFixed(1), '% of a core', '');
} finally {
  await world.stop();
}
