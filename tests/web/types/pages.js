// The GraphQL of the pages: every operation in a block of its own, in a command or in a program, and the answers shown below.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, print } from 'graphql';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** Where the text of an operation stands in a command or in a program. */
const EMBEDDED = [
  { place: /"query": ("(?:[^"\\]|\\.)*")/g, read: JSON.parse },
  { place: /query='?(\{[^']*\})'/g, read: text => text },
  { place: /`((?:query|mutation|subscription)[ (][^`]*)`/g, read: text => text },
  { place: /'((?:query|mutation|subscription)[ (][^']*)'/g, read: text => text },
];

/** The paths of all pages. */
function pages() {
  const below = readdirSync(join(ROOT, 'docs'), { recursive: true }).sort();
  return ['README.md', ...below.filter(name => name.endsWith('.md')).map(name => join('docs', name))];
}

/** The blocks of a page, each with its line and the words after the backticks. */
function blocks(page) {
  const found = [];
  let open = null;
  for (const [index, line] of readFileSync(join(ROOT, page), 'utf8').split('\n').entries()) {
    const fence = line.trimStart().match(/^```(.*)$/);
    if (!fence) open?.lines.push(line);
    else if (open) {
      found.push({ ...open, text: open.lines.join('\n') });
      open = null;
    } else open = { page, line: index + 1, kind: fence[1].split(' ')[0], lines: [] };
  }
  return found;
}

/** The texts of operations in a block. */
function texts({ kind, text }) {
  if (kind === 'graphql') return [text];
  return EMBEDDED.flatMap(({ place, read }) => [...text.matchAll(place)].map(([, found]) => read(found)));
}

/** A name for an operation that has none, such as `DocsTutorial28`. */
function nameOf({ page, line }, index) {
  const words = page.replace(/\.md$/, '').split(/\W/);
  const title = words.map(word => word[0].toUpperCase() + word.slice(1).toLowerCase()).join('');
  return `${title}${line}${index ? `x${index}` : ''}`;
}

/**
 * The operations of all pages, each with a name and a document of its own, and the answer that the page shows. The same
 * operation on two pages counts once.
 */
export function operations() {
  const known = new Map();
  for (const page of pages()) {
    const all = blocks(page);
    for (const [at, block] of all.entries()) {
      for (const [index, text] of texts(block).entries()) {
        const document = parse(text);
        const answer = block.kind === 'graphql' && all[at + 1]?.kind === 'json' ? all[at + 1].text : null;
        const key = print(document);
        if (known.has(key)) continue;
        const [operation] = document.definitions;
        if (document.definitions.length !== 1) throw new Error(`${page}:${block.line} has more than an operation`);
        operation.name ??= { kind: 'Name', value: nameOf(block, index) };
        known.set(key, { name: operation.name.value, document, answer, at: `${page}:${block.line}` });
      }
    }
  }
  return [...known.values()];
}

/** The blocks of TypeScript on all pages. */
export function snippets() {
  return pages().flatMap(blocks).filter(({ kind }) => kind === 'ts');
}
