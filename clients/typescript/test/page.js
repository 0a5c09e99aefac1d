// Compiles the programs of the how-to page against the package as it is built, each by itself.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = name => fileURLToPath(new URL(name, import.meta.url));
const page = readFileSync(here('../../../docs/how-to/client-typescript.md'), 'utf8');
const programs = [...page.matchAll(/^```tsx\n(.*?)^```/gms)].map(([, program]) => program);
if (programs.length === 0) throw new Error('the page has no program');

const directory = here('../dist/page');
rmSync(directory, { recursive: true, force: true });
mkdirSync(directory);
for (const [index, program] of programs.entries()) writeFileSync(join(directory, `${index}.tsx`), program);
const compilerOptions = {
  strict: true,
  noEmit: true,
  target: 'es2022',
  module: 'nodenext',
  moduleDetection: 'force',
  jsx: 'react-jsx',
  lib: ['es2022', 'dom', 'dom.iterable'],
  types: [],
};
writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.tsx'] }));
const tsc = here('../node_modules/typescript/bin/tsc');
const { status } = spawnSync(process.execPath, [tsc, '--project', directory], { stdio: 'inherit' });
process.exit(status ?? 1);
