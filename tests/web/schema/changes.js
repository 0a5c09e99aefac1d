// Holds a schema against that of the last release, as docs/reference/graphql.md ("Changes of the schema") promises:
// changes.js <schema> <version> <schema of the last release> <its version> <changelog> <today>. Prints one line of JSON: the
// changes that break a client and may not, and the deprecations that lack a date.

import { readFileSync } from 'node:fs';
import { ChangeType, CriticalityLevel, diff } from '@graphql-inspector/core';
import { buildSchema, isEnumType, isScalarType, isUnionType } from 'graphql';

const [nextFile, nextVersion, lastFile, lastVersion, changelog, today] = process.argv.slice(2);
const [next, last] = [nextFile, lastFile].map(file => buildSchema(readFileSync(file, 'utf8')));
const [nextMajor, lastMajor] = [nextVersion, lastVersion].map(version => Number(version.split('.')[0]));

/** Changes that graphql-inspector does not call breaking, and that the page rules out all the same. */
const RULED_OUT = [
  // A field that may be null stays so.
  ChangeType.FieldTypeChanged,
  // A client that leaves an argument out means the value that it had.
  ChangeType.FieldArgumentDefaultChanged,
  ChangeType.InputFieldDefaultValueChanged,
];

/** The date in a reason, from which the part may be missing. */
const dateOf = reason => reason?.match(/\b\d{4}-\d{2}-\d{2}\b/)?.[0];

/** The parts of a type, by name. */
function partsOf(type) {
  if (isEnumType(type)) return Object.fromEntries(type.getValues().map(value => [value.name, value]));
  if (isScalarType(type) || isUnionType(type)) return {};
  return type.getFields();
}

/** True if a part of the last release was deprecated long enough. */
function isOver(part) {
  const date = dateOf(part.deprecationReason);
  return date !== undefined && date <= today && nextMajor > lastMajor;
}

/** True if a change takes away what the last release had announced. */
function isAnnounced({ path }) {
  const [name, field, argument] = path.split('.');
  const type = last.getType(name);
  if (!type) return false;
  const parts = partsOf(type);
  // A type goes with its last part.
  if (!field) return Object.values(parts).every(isOver);
  const part = parts[field];
  const isRemoved = !next.getType(name) || !(field in partsOf(next.getType(name)));
  if (part && isOver(part) && isRemoved) return true;
  const found = part?.args?.find(({ name }) => name === argument);
  return Boolean(found) && isOver(found);
}

/** True if the changelog names a part under what is not released: enough before version 1.0. */
function isNamed({ path }) {
  const [, unreleased] = readFileSync(changelog, 'utf8').split(/^## /m);
  return lastMajor === 0 && unreleased.startsWith('[Unreleased]') && unreleased.includes(`\`${path}\``);
}

/** All parts that a schema deprecates. */
function* deprecated(schema) {
  for (const type of Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith('__'))) {
    for (const [name, part] of Object.entries(partsOf(type))) {
      const all = [[`${type.name}.${name}`, part], ...(part.args ?? []).map(one => [`${type.name}.${name}.${one.name}`, one])];
      yield* all.filter(([, { deprecationReason }]) => typeof deprecationReason === 'string');
    }
  }
}

const changes = await diff(last, next);
const breaking = changes.filter(
  ({ type, criticality }) => criticality.level === CriticalityLevel.Breaking || RULED_OUT.includes(type),
);
const wrong = breaking.filter(change => !isAnnounced(change) && !isNamed(change)).map(({ message }) => message);
const undated = [...deprecated(next)].filter(([, { deprecationReason }]) => !dateOf(deprecationReason)).map(([path]) => path);
console.log(JSON.stringify({ changes: changes.length, wrong, undated }));
