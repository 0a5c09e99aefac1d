// Holds the schema that a server tells by introspection against a file: served.js <schema file> <address>. Prints one line of
// JSON: the differences.

import { readFileSync } from 'node:fs';
import { diff } from '@graphql-inspector/core';
import { buildClientSchema, buildSchema, getIntrospectionQuery, printSchema } from 'graphql';

const [file, address] = process.argv.slice(2);
const query = getIntrospectionQuery({ specifiedByUrl: true, schemaDescription: true, inputValueDeprecation: true });
const answer = await fetch(`${address}/graphql`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ query }),
});
const { data } = await answer.json();
const written = buildSchema(readFileSync(file, 'utf8'));
const served = buildSchema(printSchema(buildClientSchema(data)));
const differences = (await diff(written, served)).map(({ message }) => message);
if (written.description !== served.description) differences.push('the description of the schema differs');
console.log(JSON.stringify(differences));
