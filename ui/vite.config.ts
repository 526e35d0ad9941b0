// Owns the build of the page, and a development server that passes API calls to a node (GODWIT_NODE=https://host:port).
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

const node = process.env.GODWIT_NODE;

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    outDir: 'dist',
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    // The polyfill is an inline script, which the content security policy forbids.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: node
    ? { proxy: { '/api': { target: node, secure: false, changeOrigin: true } } }
    : {},
});
