// The page at `/` as static files: index.html and hashed assets, each compressed.
//
// `npm run dev` serves it beside a server on LAUREL_DEV, by default http://127.0.0.1:8000.

import { defineConfig } from 'vite';
import { compressed } from '../compressed.js';

const server = process.env.LAUREL_DEV ?? 'http://127.0.0.1:8000';

export default defineConfig(({ command }) => ({
  // While it is developed, its addresses are those that it has later.
  base: command === 'build' ? '/page/' : '/',
  plugins: [compressed],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: { proxy: { '/graphql': { target: server, ws: true, changeOrigin: true, rewriteWsOrigin: true } } },
  build: {
    outDir: '../dist/page',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    // An asset in a `data:` address would need a policy that allows it.
    assetsInlineLimit: 0,
  },
}));
