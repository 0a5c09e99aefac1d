// GraphiQL as static files: index.html and hashed assets, each compressed once here instead of at every request.

import { rm, readFile, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { defineConfig } from 'vite';

const compressed = {
  name: 'laurel-compressed',
  apply: 'build',
  async writeBundle({ dir }, bundle) {
    for (const name of Object.keys(bundle)) {
      const path = `${dir}/${name}`;
      await writeFile(`${path}.gz`, gzipSync(await readFile(path), { level: 9 }));
      await rm(path);
    }
  },
};

export default defineConfig({
  base: '/graphiql/',
  plugins: [compressed],
  build: {
    // Every browser that runs Monaco has these.
    target: 'es2023',
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // What React's packages say to a server that renders them means nothing here.
      onLog(level, log, print) {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') print(level, log);
      },
    },
    // Monaco is one large module by nature.
    chunkSizeWarningLimit: 8_000,
  },
  worker: { format: 'es' },
});
