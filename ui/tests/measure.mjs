// Measures the page with 50 running jobs and prints rows for docs/performance/results/page.tsv:
// GODWIT=target/release/godwit node ui/tests/measure.mjs [--open MINUTES]
// With --open it measures instead how much a page grows that is left open for so long.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serveFrom, signIn, World } from './lib/world.mjs';

const dist = join(dirname(fileURLToPath(import.meta.url)), '../dist');
const JOBS = 50;
const WATCHED_S = 60;
const OPEN_MINUTES = process.argv[2] === '--open' ? Number(process.argv[3]) : 0;
/** All of these jobs run until the end, and do not fill the disk. */
const [BYTES, LIMIT] = OPEN_MINUTES > 0 ? [128 << 20, '20kB/s'] : [64 << 20, '200kB/s'];

/** Leaves the overview and the page of a job open, and tells how their heaps grow. */
async function leaveOpen(world) {
  const browser = await world.browser();
  const id = (await world.here.godwit('job', 'list', '--state', 'running')).match(/^\S*[0-9a-z]{8,}/m)[0];
  const pages = [];
  for (const [name, path] of [['overview', '/'], ['job', `/jobs/${id}`]]) {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    if (process.env.DIST) await serveFrom(page, process.env.DIST);
    await signIn(page, world.here.url + path, 'ada');
    const cdp = await context.newCDPSession(page);
    const heap = async () => {
      await cdp.send('HeapProfiler.collectGarbage');
      return (await cdp.send('Runtime.getHeapUsage')).usedSize;
    };
    await pause(30);
    pages.push({ name, heap, first: await heap() });
  }
  for (let minute = 5; minute <= OPEN_MINUTES; minute += 5) {
    await pause(300);
    for (const { name, heap, first } of pages) row(`${name} open for ${minute} min, heap`, (await heap()) - first, 'bytes more', minute === 60 ? 'wanted: under 20,000,000' : '');
  }
}

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
  here.file('big', BYTES);
  await Promise.all(Array.from({ length: JOBS }, (_, i) => here.submit('here:/data/big', `siteB:/data/copy${i}`, '--label', `job ${i}`, '--limit', LIMIT)));
  let running = 0;
  while (running < JOBS) {
    const list = await here.godwit('job', 'list', '--json', '--state', 'running');
    running = list.split('\n').filter(Boolean).length;
    await pause(1);
  }

  if (OPEN_MINUTES > 0) await leaveOpen(world);
  else await figures(world);
} finally {
  await world.stop();
}

async function figures(world) {
  const { here } = world;
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
}
