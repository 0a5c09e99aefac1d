// A plugin for Vite: compresses each file once at the build instead of at every request.

import { rm, readFile, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';

export const compressed = {
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
