// Tests the words and figures of the page that need no browser and no node.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { build } from 'vite';

/** A module of the page, as it is built. */
async function module(name) {
  const built = await build({
    configFile: false,
    logLevel: 'error',
    publicDir: false,
    plugins: [svelte({ configFile: false })],
    build: { write: false, minify: false, lib: { entry: join(import.meta.dirname, '../src/lib', name), formats: ['es'] } },
  });
  const [{ output }] = [built].flat();
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

const { moved, failedSoFar } = await module('states.ts');
const job = (more) => ({ state: 'failed', summary: null, moved: { bytes: 5_000_000, files: 2, bytes_again: 0 }, ...more });
assert.match(moved(job({})), /^5.*MB, 2 files$/, 'a failed job without a summary');
assert.equal(moved(job({ state: 'cancelled', moved: { bytes: 0, files: 0, bytes_again: 0 } })), '');
const dry = { dry_run: true, bytes: 7_000_000, files: 3 };
assert.equal(moved(job({ state: 'complete', summary: dry })), '', 'a dry run moves nothing');
assert.match(moved(job({ moved: { bytes: 1, files: 1, bytes_again: 9 } })), /1 file \(and 9.* sent again\)$/);

const running = (progress) => failedSoFar(job({ state: 'running', progress }));
assert.equal(failedSoFar(job({ progress: null })), 'No entry failed.');
assert.equal(running({ failed: 0 }), 'No entry has failed so far.');
assert.match(running({ failed: 0, nodes: [{}] }), /only then count them\.$/);
assert.match(running({ failed: 1 }), /^1 entry failed so far\./);

const { quoted } = await module('commands.ts');
assert.equal(quoted('here:/data/run-42'), 'here:/data/run-42');
assert.equal(quoted("it's here"), "'it'\\''s here'");
// A terminal takes these as keys: it would end the line, and begin one that another user chose.
assert.equal(quoted("\u001b[201~\u0003\nit's\\\u009b"), "$'\\x1b[201~\\x03\\x0ait\\'s\\\\\\u009b'");

const { entries, counts } = await module('dry.ts');
const item = (attempt, action, path, more = {}) => ({ attempt, event: { event: 'item', action, kind: 'file', path, bytes: 5, ...more } });
const would = entries([
  item(1, 'send', 'of an earlier attempt'),
  item(2, 'send', 'b'),
  { attempt: 2, event: { event: 'note', message: 'no entry' } },
  item(2, 'delete', 'a'),
  item(2, 'make', '', { kind: 'directory' }),
  item(2, 'send', undefined, { path_b64: 'Y+k=' }),
]);
assert.deepEqual(would.map(({ name, bytes }) => [name, bytes]), [['.', null], ['a', 5], ['b', 5], ['c\\xe9', 5]]);
assert.deepEqual(counts(would), [['send', 2], ['make', 1], ['delete', 1]]);

const { evenness } = await module('evenness.ts');
const shared = (second, rates) => ({
  at: new Date(second * 1000).toISOString(),
  attempt: 1,
  nodes: Object.entries(rates).map(([node, rate]) => ({
    node,
    bytes_per_second: rate,
    host: { interface_eth0_sent_bytes_per_second: 3 * rate, interface_eth1_sent_bytes_per_second: rate, interface_eth2_sent_bytes_per_second: rate / 100 },
  })),
});
const straggled = [shared(0, {}), shared(1, { a1: 30, a2: 10 }), shared(2, { a1: 30, a2: 10 }), shared(4, { a1: 0, a2: 10 })];
assert.equal(
  evenness(straggled),
  'a1 was done first and a2 last, 2.0 s later. The node that moved least moved 67 % as much as the node that moved most. The interface of a node that sent least sent at least 33 % as much as the one that sent most.',
);
assert.equal(evenness([shared(0, {}), shared(1, { a1: 30 })]), '', 'one node is even');

const { adviceOf } = await module('advice.ts');
assert.match(adviceOf('no_space').fault, /destination/);
assert.equal(adviceOf('of_a_newer_version'), null);
assert.equal(adviceOf('constructor'), null);

const { actions } = await module('states.ts');
const waits = { state: 'queued', next_attempt: '2026-11-29T00:00:00Z' };
assert.deepEqual(actions(waits), ['now', 'pause', 'cancel']);
assert.deepEqual(actions({ ...waits, next_attempt: null }), ['pause', 'cancel']);

const { hostFigures, hostsOf, interfacesOf } = await module('timeline.ts');
const own = (node) => ({ node, other: false, to: '' });
const other = (node, to = '') => ({ node, other: true, to });
const sample = {
  host: { cpu_user: 0.5 },
  nodes: [
    { node: 'b', to: 'x', host: { cpu_user: 0.1 }, other_host: { cpu_user: 0.2 } },
    { node: 'a', to: 'x', host: {}, other_host: { cpu_user: 0.3 } },
  ],
};
assert.equal(hostFigures(sample, own('')).cpu_user, 0.5);
assert.equal(hostFigures(sample, own('b')).cpu_user, 0.1);
assert.equal(hostFigures(sample, other('b', 'x')).cpu_user, 0.2);
assert.equal(hostFigures(sample, other('a')).cpu_user, 0.3);
assert.equal(hostFigures(sample, own('a')), null);
assert.equal(hostFigures(sample, own('c')), null);
assert.deepEqual(hostsOf([sample]), [own('b'), other('b', 'x')]);
const lone = { host: { cpu_user: 0.5 }, other_host: { cpu_user: 0.7 } };
assert.deepEqual(hostsOf([{ host: {} }, lone]), [own(''), other('')]);
assert.equal(hostFigures(lone, other('')).cpu_user, 0.7);
assert.equal(hostFigures({ host: {} }, own('')), null);
const rates = { 'interface_eth0-5_sent_bytes_per_second': 1, cpu_user: 0.5, interface_a_b_received_bytes_per_second: 2 };
assert.deepEqual(interfacesOf([{ at: 0, sample: null }, { at: 1, sample: { host: rates } }], own('')), [
  { label: 'a_b received', name: 'interface_a_b_received_bytes_per_second' },
  { label: 'eth0-5 sent', name: 'interface_eth0-5_sent_bytes_per_second' },
]);

const { lastValues, tickLabels, zoomOf } = await module('axis.ts');
assert.deepEqual(lastValues([1, 2], 4), [null, null, 1, 2], 'a young node has gaps before its first value');
assert.deepEqual(lastValues([1, null, 3], 2), [null, 3]);
const second = (text) => Date.parse(`2026-11-${text}`) / 1000;
const ticks = (...texts) => tickLabels(texts.map(second));
assert.deepEqual(ticks('29T10:00:00', '29T11:00:00'), ['10:00:00', '11:00:00']);
assert.deepEqual(ticks('29T21:00:00', '30T00:00:00', '30T03:00:00'), ['21:00:00\n2026-11-29', '00:00:00\n2026-11-30', '03:00:00']);
assert.equal(zoomOf([1, 2, 3], { min: 1, max: 3 }), null);
assert.deepEqual(zoomOf([1, 2, 3], { min: 1.5, max: 3 }), { min: 1.5, max: 3 }, 'a zoom stays when values arrive');
assert.equal(zoomOf([], { min: null, max: null }), null);

const { asCommand } = await module('commands.ts');
const gather = { sources: ['a:/x', 'b:/x'], destination: 'here:/all', gather: true };
assert.equal(asCommand(gather), 'godwit job submit --from a:/x --from b:/x --to here:/all');
assert.equal(asCommand({ ...gather, merge: 'refuse' }), 'godwit job submit --from a:/x --from b:/x --to here:/all --merge refuse');
