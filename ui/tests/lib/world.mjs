// Owns the nodes and the browser of the tests: two sites in a temporary directory, users, and Chromium with a separate profile.
// Tests nothing.
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const run = promisify(execFile);

export const PASSWORD = 'correct horse battery';

const FLAGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Each of these system calls takes so long more. */
const slowed = (calls, milliseconds) =>
  `strace -D -f -qq --seccomp-bpf -o /dev/null -e trace=${calls} -e inject=${calls}:delay_enter=${milliseconds}ms`.split(' ');

/** The calls of a node that can be slow. */
const SLOW = { writes: slowed('pwrite64,pwritev', 20), scan: slowed('statx,newfstatat', 5) };

/** A node of one site. */
class Node {
  constructor(world, site) {
    this.world = world;
    this.site = site;
    this.home = join(world.directory, site, 'home');
    this.data = join(world.directory, site, 'data');
    mkdirSync(this.data, { recursive: true });
    this.listen = '127.0.0.1:0';
    /** Further words of its next start alone. */
    this.once = [];
    /** Words before the command of the node, such as a program that slows it down. */
    this.under = [];
  }

  /** Starts the node and waits until it answers. */
  async start() {
    const args = ['serve', '--listen', this.listen, '--export', `data=${this.data}`, ...this.world.serve, ...this.once];
    this.once = [];
    const [program, ...words] = [...this.under, this.world.godwit, ...args];
    const child = spawn(program, words, { env: this.env(), stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    // A test that ends in the middle leaves no node behind.
    process.once('exit', () => child.kill('SIGKILL'));
    this.log = '';
    const listening = new Promise((resolve, reject) => {
      const hear = (data) => {
        this.log += data;
        const found = /^listening on (\S+) as/m.exec(this.log);
        if (found && this.log.includes('API at')) resolve(found[1]);
      };
      child.stdout.on('data', hear);
      child.stderr.on('data', hear);
      child.on('exit', (code) => reject(new Error(`the node of ${this.site} ended with ${code}:\n${this.log}`)));
    });
    this.exited = new Promise((resolve) => child.on('exit', resolve));
    // The same port after a restart.
    this.listen = await listening;
    this.url = `https://localhost:${this.listen.split(':').pop()}`;
    return this;
  }

  async stop(signal = 'SIGTERM') {
    this.child?.kill(signal);
    await this.exited;
  }

  env() {
    return { ...process.env, GODWIT_HOME: this.home };
  }

  /** Runs a command of this site's user and gives its output. */
  async godwit(...args) {
    const { stdout } = await run(this.world.godwit, args, { env: this.env() });
    return stdout.trim();
  }

  /** Submits a job and gives its id. */
  submit(...args) {
    return this.godwit('job', 'submit', ...args);
  }

  /** The job as the API tells it. */
  async job(id) {
    return JSON.parse(await this.godwit('job', 'show', id, '--json'));
  }

  /** A file of so many bytes that differ. */
  file(name, bytes) {
    const path = join(this.data, name);
    mkdirSync(join(path, '..'), { recursive: true });
    const block = Buffer.alloc(1 << 20);
    for (let i = 0; i < block.length; i++) block[i] = (i * 2654435761) >>> 24;
    const parts = [];
    for (let left = bytes; left > 0; left -= block.length) parts.push(block.subarray(0, Math.min(left, block.length)));
    writeFileSync(path, Buffer.concat(parts));
    return path;
  }

  async user(name, role) {
    const file = join(this.world.directory, `password-${name}`);
    writeFileSync(file, `${PASSWORD}\n`, { mode: 0o600 });
    await this.godwit('user', 'add', name, '--role', role, '--password-file', file);
  }
}

/** Two sites that let each other in. */
export class World {
  /** `serve` are further words of godwit serve; `here` and `there` say what is slow at each site. */
  static async start(serve = [], { here, there } = {}) {
    const world = new World();
    world.joined = [];
    world.admitted = [];
    world.serve = serve;
    world.godwit = process.env.GODWIT;
    if (!world.godwit) throw new Error('GODWIT: name the binary to test');
    world.directory = mkdtempSync(join(tmpdir(), 'godwit-page.'));
    world.here = new Node(world, 'siteA');
    world.here.under = SLOW[here] ?? [];
    await world.here.start();
    world.there = new Node(world, 'siteB');
    world.there.under = SLOW[there] ?? [];
    await world.there.start();
    await world.#admit(world.here);
    await allow(world.here, await world.there.godwit('id'));
    await world.here.godwit('site', 'add', 'siteB', world.there.listen, '--identity', await world.there.godwit('id'));
    return world;
  }

  /** One more node of the first site, which shares its export and joins its cluster under that name, by this token or a new one. */
  async join(name, given) {
    const node = await this.#joined(name, this.here, given);
    await this.#admit(node);
    return node;
  }

  /** One more node of the second site, which admits the nodes of the first one, too. */
  async joinThere(name) {
    const node = await this.#joined(name, this.there);
    // The grants of a lone node are in its own file; those of a cluster are in the state of all its nodes.
    for (const identity of this.admitted) await allow(this.there, identity);
    return node;
  }

  /** Lets a node of the first site in at the second one. */
  async #admit(node) {
    const identity = await node.godwit('id');
    this.admitted.push(identity);
    await allow(this.there, identity);
  }

  async #joined(name, first, given) {
    const token = join(this.directory, `token-${name}`);
    writeFileSync(token, given ?? (await first.godwit('cluster', 'invite')), { mode: 0o600 });
    const node = new Node(this, name);
    node.data = first.data;
    node.once = ['--join', first.listen, '--token-file', token, '--name', name];
    this.joined.push(await node.start());
    return node;
  }

  /** A separate browser. */
  async browser() {
    this.chromium = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: FLAGS, chromiumSandbox: false });
    return this.chromium;
  }

  async stop() {
    await this.chromium?.close();
    for (const node of [this.here, this.there, ...(this.joined ?? [])]) {
      if (node?.child?.exitCode === null) await node.stop('SIGKILL');
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Lets an identity read and write the export. */
function allow(node, identity) {
  return node.godwit('access', 'allow', identity, '--export', 'data', '--read', '--write');
}

/** Serves the built page from a directory: for work on the page, without building the node. */
export async function serveFrom(page, directory) {
  const types = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };
  await page.route(/^https:\/\/localhost:\d+\/(?!api\/|openapi\.json|docs)/, async (route) => {
    const path = new URL(route.request().url()).pathname.slice(1);
    const name = /\.\w+$/.test(path) ? path : 'index.html';
    await route.fulfill({
      body: readFileSync(join(directory, name)),
      contentType: types[name.split('.').pop()],
      headers: {
        'content-security-policy':
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
      },
    });
  });
}

export async function signIn(page, url, name) {
  await page.goto(url);
  await page.getByLabel('Name', { exact: true }).fill(name);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}
