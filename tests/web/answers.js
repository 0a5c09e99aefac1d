// Judges answers by a schema, as graphql-js reads it: answers.js <schema file> <file of [query, answer] lines>.
// Prints one line of JSON: what is wrong with each answer that is not as the specification has it.

import { readFileSync } from 'node:fs';
import {
  buildSchema, getNamedType, isAbstractType, isCompositeType, isListType, isNonNullType, parse,
} from 'graphql';

const schema = buildSchema(readFileSync(process.argv[2], 'utf8'));

// The fields that an object of a type must have, by response key: their types and selections.
function selected(type, sets, fragments, fields = new Map()) {
  for (const selection of sets.flatMap((set) => set.selections)) {
    if (selection.kind === 'Field') {
      const key = (selection.alias ?? selection.name).value;
      const name = selection.name.value;
      const of = name === '__typename' ? null : type.getFields()[name].type;
      if (!fields.has(key)) fields.set(key, { of, sets: [] });
      if (selection.selectionSet) fields.get(key).sets.push(selection.selectionSet);
      continue;
    }
    const fragment = selection.kind === 'FragmentSpread' ? fragments.get(selection.name.value) : selection;
    const condition = fragment.typeCondition ? schema.getType(fragment.typeCondition.name.value) : type;
    if (condition === type || (isAbstractType(condition) && schema.isSubType(condition, type))) {
      selected(type, [fragment.selectionSet], fragments, fields);
    }
  }
  return fields;
}

function judge([query, { data, errors = [] }]) {
  const document = parse(query);
  const fragments = new Map(
    document.definitions.filter(({ kind }) => kind === 'FragmentDefinition').map((one) => [one.name.value, one]),
  );
  const operation = document.definitions.find(({ kind }) => kind === 'OperationDefinition');
  const wrong = [];
  const value = (of, sets, found, path) => {
    if (isNonNullType(of)) {
      if (found === null) return wrong.push(`${path.join('.')} is null: expected ${of}`);
      of = of.ofType;
    }
    if (found === null) return;
    if (isListType(of)) {
      if (!Array.isArray(found)) return wrong.push(`${path.join('.')} is no list`);
      return found.forEach((item, index) => value(of.ofType, sets, item, [...path, index]));
    }
    const named = getNamedType(of);
    if (isCompositeType(named)) object(schema.getType(found.__typename) ?? named, sets, found, path);
  };
  const object = (type, sets, found, path) => {
    const fields = selected(type, sets, fragments);
    for (const [key, field] of fields) {
      const below = [...path, key];
      if (!(key in found)) wrong.push(`${below.join('.')} is absent`);
      else if (field.of) value(field.of, field.sets, found[key], below);
    }
    const keys = Object.keys(found);
    const expected = [...fields.keys()].filter((key) => key in found);
    if (keys.join() !== expected.join()) wrong.push(`${path.join('.')} has ${keys}: expected ${expected}`);
  };
  const root = operation.operation === 'mutation' ? schema.getMutationType() : schema.getQueryType();
  if (data) object(root, [operation.selectionSet], data, []);
  // An error stands for a null at its path, or around it.
  for (const { path } of errors) {
    let at = data ?? null;
    for (const key of path ?? []) at = at === null ? null : at[key];
    if (at !== null) wrong.push(`an error is told of ${path?.join('.')}, which is not null`);
  }
  return wrong;
}

const lines = readFileSync(process.argv[3], 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
const found = lines.map((line) => ({ line, wrong: judge(line) })).filter(({ wrong }) => wrong.length);
console.log(JSON.stringify(found.map(({ line: [query, answer], wrong }) => ({ query, answer, wrong }))));
