// GraphiQL as static files: index.html and hashed assets, each compressed.

import { defineConfig } from 'vite';
import { compressed } from '../compressed.js';

// Monaco has a copy of DOMPurify inside, 3.1.7, which no audit sees and no update reaches. The package of the same name takes
// its place, under the names that Monaco imports; the build fails where Monaco no longer has the copy.
const copy = /[\\/]monaco-editor[\\/]esm[\\/]vs[\\/]base[\\/]browser[\\/]dompurify[\\/]dompurify\.js$/;
const names = ['version', 'isSupported', 'sanitize', 'setConfig', 'clearConfig', 'isValidAttribute'];
const hooks = ['addHook', 'removeHook', 'removeHooks', 'removeAllHooks'];
const purified = () => {
  let replaced = false;
  return {
    name: 'laurel-purified',
    apply: 'build',
    load(id) {
      if (!copy.test(id)) return null;
      replaced = true;
      return `import purify from 'dompurify';
export default purify;
export const { ${[...names, ...hooks].join(', ')} } = purify;
`;
    },
    buildEnd(error) {
      if (!error && !replaced) this.error('Monaco has no copy of DOMPurify any more: take laurel-purified out');
    },
  };
};

export default defineConfig({
  base: '/graphiql/',
  plugins: [purified(), compressed],
  build: {
    outDir: '../dist/graphiql',
    emptyOutDir: true,
    // Every browser that runs Monaco has these.
    target: 'es2023',
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // React's packages have directives for a server that renders them; this page has none.
      onLog(level, log, print) {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') print(level, log);
      },
    },
    // Monaco is one large module by nature.
    chunkSizeWarningLimit: 8_000,
  },
  worker: { format: 'es' },
});
