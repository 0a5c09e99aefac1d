// Generates src/generated.ts by graphql-codegen: the page's operations, and their types by the schema of the server; and the
// same for the office. The build fails where an operation does not fit the schema.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { codegen } from '@graphql-codegen/core';
import * as typedDocumentNode from '@graphql-codegen/typed-document-node';
import * as typescriptOperations from '@graphql-codegen/typescript-operations';
import { parse } from 'graphql';

const here = name => fileURLToPath(new URL(name, import.meta.url));
const read = name => parse(readFileSync(here(name), 'utf8'));
const schema = read('../../../schema.graphql');

async function generate(operations, output) {
  const filename = here(output);
  const text = await codegen({
    filename,
    schema,
    documents: [{ location: operations, document: read(operations) }],
    config: {
      scalars: { DateTime: 'string', Decimal: 'string', JSON: 'unknown' },
      strictScalars: true,
      documentMode: 'string',
      useTypeImports: true,
      enumsAsTypes: true,
    },
    plugins: [{ typescriptOperations: {} }, { typedDocumentNode: {} }],
    pluginMap: { typedDocumentNode, typescriptOperations },
  });
  writeFileSync(filename, text);
}

await generate('operations.graphql', 'src/generated.ts');
await generate('office.graphql', 'src/office/generated.ts');
