// Owns the test of what the page shows of a cluster: its nodes, the work of a divided job, a lost node, a node that is cut off.
// The Rust test `page` runs it; by hand: GODWIT=target/debug/godwit node ui/tests/cluster.mjs. SHOTS=DIRECTORY keeps pictures.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { accessible, api, complaints, open, step, until } from './lib/steps.mjs';
import { signIn, World } from './lib/world.mjs';

const shot = async (page, name) => {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
};

const world = await World.start();
try {
  const { here } = world;
  await here.user('ada', 'admin');
  const second = await world.join('dtn2');
  const third = await world.join('dtn3');
  const browser = await world.browser();
  const page = await open(browser);
  await signIn(page, here.url, 'ada');

  await step('all nodes are shown, with what each has', async () => {
    await page.goto(`${here.url}/cluster`);
    for (const name of ['dtn2', 'dtn3']) await page.locator(`tr[data-node="${name}"][data-state="up"]`).waitFor();
    const { body: view } = await api(page, '/cluster');
    assert.equal(await page.locator('tr[data-node]').count(), view.nodes.length);
    for (const node of view.nodes) {
      const row = page.locator(`tr[data-node="${node.name}"]`);
      await row.getByText(/^data: \d/).waitFor();
      await until('its cores and its role', async () => {
        const text = await row.textContent();
        return text.includes(node.version) && /leads|votes|follows/.test(text) && /\d [GM]B/.test(text);
      });
    }
    await accessible(page, 'the cluster');
    await shot(page, 'cluster');
  });

  let id;
  await step('another node shows the work of a divided job, and who does what', async () => {
    for (let i = 0; i < 30; i++) here.file(`set/d${i}/f${i}`, 200_000);
    here.file('set/large', 600 << 20);
    id = await here.submit('here:/data/set', 'siteB:/data/set', '--label', 'shared', '--limit', '400kB/s');
    const other = await open(browser);
    await signIn(other, second.url, 'ada');
    await other.goto(`${second.url}/jobs/${id}`);
    await other.getByRole('link', { name: 'Work', exact: true }).click();
    const work = other.getByRole('region', { name: 'Work' });
    await work.locator('[data-controller]').waitFor();
    const rows = work.locator('tr[data-node]');
    await until('three nodes work', async () => (await rows.count()) === 3);
    await until('somebody holds something', async () => {
      const cells = await work.locator('tr[data-node] td.number').allTextContents();
      return cells.some((cell) => Number(cell) > 0);
    });
    const { body: seen } = await api(other, `/jobs/${id}/work`);
    assert.equal(await work.locator('[data-controller]').getAttribute('data-controller'), seen.controller);
    for (const node of seen.nodes) assert.ok((await work.locator(`tr[data-node="${node.node}"]`).textContent()).includes(seen.targets[0].name));
    assert.match(await work.locator('tr[data-kind="close"]').textContent(), /1/);
    assert.equal(await work.locator('[data-old]').count(), 0);
    await accessible(other, 'the work');
    await shot(other, 'work');
    await other.goto(`${second.url}/cluster`);
    const controller = other.locator(`tr[data-node="${seen.controller}"]`);
    await controller.getByRole('link', { name: 'shared' }).waitFor();
    await controller.getByText('controls it', { exact: false }).waitFor();
    await shot(other, 'cluster-busy');
    await other.context().close();
  });

  await step('the host of each node of the job is shown', async () => {
    await page.goto(`${here.url}/jobs/${id}`);
    const choice = page.locator('section[data-host] select');
    // Three nodes at this end, and the one that they send to.
    await until('all nodes', async () => (await choice.locator('option').count()) >= 4);
    assert.ok((await choice.locator('option').filter({ hasText: 'other end' }).count()) >= 1);
    // The node that runs the job names the others; another one counts them.
    for (const name of await choice.locator('option').allTextContents()) {
      await choice.selectOption(name);
      const host = page.locator(`section[data-host="${name}"]`);
      await host.getByRole('heading', { name: `Host of ${name}` }).waitFor();
      for (const title of ['Processors busy', 'Memory available', 'Network of the machine']) {
        await host.locator('figure').filter({ has: page.getByText(title, { exact: true }) }).locator('canvas').waitFor();
      }
    }
    await accessible(page, 'hosts of a divided job');
    await shot(page, 'hosts');
    await page.goto(`${here.url}/cluster`);
  });

  await step('both views fit a phone, light and dark', async () => {
    for (const scheme of ['light', 'dark']) {
      const phone = await open(browser, { width: 390, height: 844, scheme });
      await signIn(phone, here.url, 'ada');
      for (const [view, sign] of [
        ['/cluster', 'tr[data-node="dtn3"]'],
        [`/jobs/${id}?tab=work`, '[data-controller]'],
      ]) {
        await phone.goto(here.url + view);
        await phone.locator(sign).waitFor();
        const wide = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${view} is ${wide} pixels too wide for a phone`);
        await accessible(phone, `${view}, ${scheme}`);
        await shot(phone, `phone-${scheme}-${view.startsWith('/cluster') ? 'cluster' : 'work'}`);
      }
      await phone.context().close();
    }
  });

  await step('an admin drains a node and lets it take jobs again', async () => {
    await page.getByRole('button', { name: 'Drain dtn2' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('dtn2 takes no new jobs', { exact: false }).waitFor();
    await shot(page, 'drain');
    await dialog.getByRole('button', { name: 'Drain the node' }).click();
    await page.locator('tr[data-node="dtn2"]:is([data-state="draining"], [data-state="drained"])').waitFor();
    await page.getByRole('button', { name: 'Undrain dtn2' }).click();
    await page.locator('tr[data-node="dtn2"][data-state="up"]').waitFor();
  });

  await step('an invitation is shown once, and a node joins and leaves with it', async () => {
    await page.getByRole('button', { name: 'Invite a node…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Make the invitation' }).click();
    const invitation = page.getByRole('region', { name: 'Invitation' });
    await invitation.locator('pre').nth(2).waitFor();
    const [file, token, serve] = await invitation.locator('pre').allTextContents();
    await accessible(page, 'an invitation');
    await shot(page, 'invitation');
    assert.ok(!`${file}${serve}`.includes(token));
    assert.match(serve, /^godwit serve --join \S+:\d+ --token-file godwit-token$/);
    await invitation.getByRole('button', { name: 'I have copied it' }).click();
    assert.ok(!(await page.content()).includes(token));
    await world.join('dtn4', token);
    await page.locator('tr[data-node="dtn4"][data-state="up"]').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Remove dtn4' }).count(), 0);
    await page.getByRole('button', { name: 'Drain dtn4' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain the node' }).click();
    await page.locator('tr[data-node="dtn4"][data-state="drained"]').waitFor();
    await page.getByRole('button', { name: 'Remove dtn4' }).click();
    await page.getByRole('dialog').getByText('it needs a new invitation', { exact: false }).waitFor();
    await shot(page, 'remove');
    await page.getByRole('dialog').getByRole('button', { name: 'Remove dtn4' }).click();
    await page.locator('tr[data-node="dtn4"]').waitFor({ state: 'detached' });
  });

  await step('the invitations are listed without their tokens, and an unused one is revoked', async () => {
    const table = page.getByRole('table', { name: 'Invitations' });
    await until('each node came with one', async () => (await table.getByText('joined with it', { exact: false }).count()) === 3);
    await page.getByRole('button', { name: 'Invite a node…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Make the invitation' }).click();
    const invitation = page.getByRole('region', { name: 'Invitation' });
    const token = await invitation.locator('pre').nth(1).textContent();
    await invitation.getByRole('button', { name: 'I have copied it' }).click();
    const row = table.locator('tr').filter({ hasText: 'lets one node join' });
    await row.waitFor();
    await shot(page, 'invitations');
    await accessible(page, 'the invitations');
    await row.getByRole('button', { name: /^Revoke/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the invitation' }).click();
    await table.getByText('ended before a node joined').waitFor();
    assert.equal(await row.count(), 0);
    const { body: invites } = await api(page, '/cluster/invites');
    assert.ok(invites.every((invite) => !invite.usable));
    assert.ok(!JSON.stringify(invites).includes(token));
  });

  await step('a lost node is shown, and since when it is silent', async () => {
    await third.stop('SIGKILL');
    const row = page.locator('tr[data-node="dtn3"][data-state="lost"]');
    await row.waitFor();
    await row.getByText(/not heard for \d/).waitFor();
    await accessible(page, 'a lost node');
    await shot(page, 'lost');
  });

  await step('a node that has lost the others says that its figures may be old', async () => {
    await second.stop('SIGKILL');
    await page.locator('[data-old]').waitFor();
    await page.getByText('it may be old', { exact: false }).waitFor();
    await shot(page, 'cut-off');
  });

  assert.deepEqual(complaints, []);
} finally {
  await world.stop();
}
