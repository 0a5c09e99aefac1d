// Generates src/generated.ts by graphql-codegen from the server's schema: its types, and the operations of src/operations.graphql,
// each as a text that carries the types of its answer and its variables. The build fails where an operation does not fit.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { codegen } from '@graphql-codegen/core';
import * as typescript from '@graphql-codegen/typescript';
import * as typescriptOperations from '@graphql-codegen/typescript-operations';
import { parse, print } from 'graphql';

const here = name => fileURLToPath(new URL(name, import.meta.url));
const read = name => parse(readFileSync(here(name), 'utf8'));
const operations = read('src/operations.graphql');
const schema = read('../../schema.graphql');
const scalars = {
  DateTime: 'string',
  Decimal: { input: 'string | number', output: 'string' },
  JSON: 'Record<string, unknown>',
};

const isFragment = ({ kind }) => kind === 'FragmentDefinition';
const fragments = operations.definitions.filter(isFragment);

/** The text of an operation with the fragments that it spreads. */
function textOf(definition) {
  const text = print(definition);
  const used = fragments.filter(({ name }) => text.includes(`...${name.value}`));
  return [text, ...used.map(print)].join(' ').replace(/\s+/g, ' ');
}

/** The texts of the operations, each with the types of its answer and its variables. */
const documents = {
  plugin: () => ({
    prepend: ["import type { Document } from './client.js';"],
    content: operations.definitions.filter(definition => !isFragment(definition)).map(definition => {
      const name = definition.name.value;
      const type = `${name}${definition.operation[0].toUpperCase()}${definition.operation.slice(1)}`;
      const text = JSON.stringify(textOf(definition));
      return `export const ${name}Document = ${text} as Document<${type}, ${type}Variables>;`;
    }).join('\n'),
  }),
};

async function generate(output, plugins, config) {
  const filename = here(output);
  const text = await codegen({
    filename,
    schema,
    documents: [{ location: 'src/operations.graphql', document: operations }],
    config: { scalars, strictScalars: true, useTypeImports: true, enumsAsTypes: true, ...config },
    plugins: plugins.map(name => ({ [name]: {} })),
    pluginMap: { documents, typescript, typescriptOperations },
  });
  writeFileSync(filename, text);
}

await generate('src/generated.ts', ['typescriptOperations', 'documents'], {});
await generate('src/schema.ts', ['typescript'], {});
