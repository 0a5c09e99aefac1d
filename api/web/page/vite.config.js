// The page at `/` and, with `--mode office`, the office at `/admin`, as static files: a page and hashed assets, each compressed.
// Each has a bundle of its own, so that the page does not grow with the office.
//
// `npm run dev` serves both beside a server on LAUREL_DEV, by default http://127.0.0.1:8000.

import { defineConfig } from 'vite';
import { compressed } from '../compressed.js';

const server = process.env.LAUREL_DEV ?? 'http://127.0.0.1:8000';

/** Serves the office at its addresses while it is developed. */
const office = {
  name: 'laurel-office',
  apply: 'serve',
  configureServer({ middlewares }) {
    middlewares.use((request, _, next) => {
      if (/^\/admin(\/|\?|$)/.test(request.url)) request.url = '/office.html';
      next();
    });
  },
};

export default defineConfig(({ command, mode }) => {
  const [input, address, outDir] =
    mode === 'office' ? ['office.html', '/admin/', '../dist/office'] : ['index.html', '/page/', '../dist/page'];
  return {
    // While they are developed, their addresses are those that they have later.
    base: command === 'build' ? address : '/',
    plugins: [office, compressed],
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    server: { proxy: { '/graphql': { target: server, ws: true, changeOrigin: true, rewriteWsOrigin: true } } },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2022',
      modulePreload: { polyfill: false },
      // An asset in a `data:` address would need a policy that allows it.
      assetsInlineLimit: 0,
      rolldownOptions: { input: new URL(input, import.meta.url).pathname },
    },
  };
});
