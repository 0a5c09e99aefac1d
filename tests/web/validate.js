// Validates documents as graphql-js does: validate.js <schema file> <file with a JSON list of documents>.
// Prints one line of JSON: for each document the first thing that is wrong, or null.

import { readFileSync } from 'node:fs';
import { buildSchema, parse, validate } from 'graphql';

const schema = buildSchema(readFileSync(process.argv[2], 'utf8'));

function judge(text) {
  try {
    return validate(schema, parse(text))[0]?.message ?? null;
  } catch (error) {
    return error.message;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(process.argv[3], 'utf8')).map(judge)));
