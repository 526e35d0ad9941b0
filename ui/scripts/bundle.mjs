// Owns the last step of the build: compresses the files in dist/, and writes the table by which the node serves them.
// Writes the digest of the sources, too: a test of the node compares it with the sources that it finds.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const dist = join(root, 'dist');

const TYPES = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
};

function walk(directory) {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? walk(path) : [path];
  });
}

const sha256 = (content) => createHash('sha256').update(content).digest('hex');
/** By bytes, as the node sorts. */
const order = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));

function source() {
  const single = ['index.html', 'package-lock.json', 'scripts/safe-texts.js', 'svelte.config.js', 'vite.config.ts'];
  const files = [...single.map((name) => join(root, name)), ...walk(join(root, 'src')), ...walk(join(root, 'public'))];
  const lines = files
    .map((path) => [relative(root, path), path])
    .filter(([name]) => name !== 'src/lib/schema.d.ts')
    .map(([name, path]) => `${name} ${sha256(readFileSync(path))}\n`)
    .sort(order);
  return sha256(lines.join(''));
}

for (const path of walk(dist)) if (/\.(br|gz|in)$/.test(path)) rmSync(path);
const files = walk(dist)
  .map((path) => relative(dist, path))
  .sort(order);
const rows = files.map((name) => {
  const content = readFileSync(join(dist, name));
  const type = TYPES[name.split('.').pop()];
  if (!type) throw new Error(`dist/${name}: bundle.mjs knows no content type for it`);
  writeFileSync(join(dist, `${name}.gz`), gzipSync(content, { level: 9 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  writeFileSync(join(dist, `${name}.br`), brotliCompressSync(content, { params }));
  const include = (suffix) => `include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/dist/${name}${suffix}"))`;
  return `    File {
        path: "${name}",
        content_type: "${type}",
        immutable: ${name.startsWith('assets/')},
        etag: "\\"${sha256(content).slice(0, 32)}\\"",
        plain: ${include('')},
        gzip: ${include('.gz')},
        brotli: ${include('.br')},
    },`;
});
writeFileSync(
  join(dist, 'files.in'),
  `// Written by ui/scripts/bundle.mjs.
const FILES: &[File] = &[
${rows.join('\n')}
];

#[cfg(test)]
const SOURCE: &str = "${source()}";
`,
);
