// Generates TypeScript by graphql-codegen from the schema and from every operation of the pages, and compiles it, strictly, with
// program.ts and with the TypeScript of the pages: compile.js DIRECTORY, which is empty. Prints one line of JSON: how many of each
// there were, and the compiler's errors.

import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { codegen } from '@graphql-codegen/core';
import * as typedDocumentNode from '@graphql-codegen/typed-document-node';
import * as typescript from '@graphql-codegen/typescript';
import * as typescriptOperations from '@graphql-codegen/typescript-operations';
import { parse } from 'graphql';
import { operations, snippets } from './pages.js';

const [directory] = process.argv.slice(2);
const here = name => fileURLToPath(new URL(name, import.meta.url));
const sdl = readFileSync(here('../../../schema.graphql'), 'utf8');
const pluginMap = { typedDocumentNode, typescript, typescriptOperations };

/** The block of the pages that tells graphql-codegen about the scalars. */
const [setting, ...programs] = snippets().sort((one, other) => isProgram(one) - isProgram(other));
const { scalars } = new Function(`return { ${setting.text} }`)();

function isProgram({ text }) {
  return /^(export|import) /m.test(text);
}

/** Writes a file that plugins generate. */
async function generate(filename, plugins, documents) {
  const text = await codegen({
    filename,
    schema: parse(sdl),
    documents: documents.map(({ at, document }) => ({ location: at, document })),
    config: { scalars, strictScalars: true },
    plugins: plugins.map(name => ({ [name]: {} })),
    pluginMap,
  });
  writeFileSync(join(directory, filename), text);
}

/** The program that sends each operation, and holds each answer of the pages against the type of its operation. */
function uses(documents) {
  const kind = ({ document }) => document.definitions[0].operation.replace(/^./, letter => letter.toUpperCase());
  const lines = documents.map(operation => {
    const type = `generated.${operation.name}${kind(operation)}`;
    const sent = `await ask(generated.${operation.name}Document, {} as ${type}Variables)`;
    const shown = operation.answer && `export const ${operation.name}: ${type} = ${operation.answer};`;
    return `// ${operation.at}\nconsole.log(${sent});\n${shown ?? ''}`;
  });
  return ["import { ask } from './ask.js';", "import * as generated from './operations.js';", ...lines].join('\n');
}

const documents = operations();
await generate('schema.ts', ['typescript'], []);
await generate('operations.ts', ['typescriptOperations', 'typedDocumentNode'], documents);
writeFileSync(join(directory, 'uses.ts'), uses(documents));
for (const name of ['ask.ts', 'program.ts']) copyFileSync(here(name), join(directory, name));
for (const { text, line } of programs) writeFileSync(join(directory, `page${line}.ts`), text);
symlinkSync(here('../node_modules'), join(directory, 'node_modules'));
const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noEmit: true,
  target: 'es2022',
  module: 'nodenext',
  lib: ['es2022', 'dom', 'dom.iterable'],
  types: [],
};
writeFileSync(join(directory, 'package.json'), '{ "type": "module" }');
writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
const tsc = here('../node_modules/typescript/bin/tsc');
const { stdout, stderr, status } = spawnSync(process.execPath, [tsc, '--project', directory], { encoding: 'utf8' });
const errors = status === 0 ? [] : `${stdout}${stderr}`.split('\n').filter(Boolean);
const answers = documents.filter(({ answer }) => answer).length;
console.log(JSON.stringify({ operations: documents.length, answers, programs: programs.length, errors }));
