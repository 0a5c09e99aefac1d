// Lints a schema by the rules of graphql-eslint: lint.js <schema file>. Prints one line of JSON: the findings, and the allowances
// that nothing needs any more.

import { readFileSync } from 'node:fs';
import plugin from '@graphql-eslint/eslint-plugin';
import { Linter } from 'eslint';
import { parse, visit } from 'graphql';

const OFF = 'off';

/** All rules for schemas and for Relay's, but for what is said here. */
const RULES = {
  ...plugin.configs['flat/schema-all'].rules,
  ...plugin.configs['flat/schema-relay'].rules,
  // Fields, arguments and values stand in the order in which a reader wants them.
  '@graphql-eslint/alphabetize': OFF,
  // Laurel writes and pushes.
  '@graphql-eslint/no-root-type': OFF,
  // A payload has the objects that the mutation changed, so a client needs no second look at all.
  '@graphql-eslint/require-field-of-type-query-in-mutation-result': OFF,
  // `nodes` stands beside `edges`, as at GitHub; a list that has an end of its own, such as the windows of a board, has no pages.
  '@graphql-eslint/relay-edge-types': ['error', { listTypeCanWrapOnlyEdgeType: false }],
  // `createBoard` takes `CreateBoardInput`: a type begins with a capital.
  '@graphql-eslint/input-name': ['error', { checkInputType: true, caseSensitiveInputType: false }],
  '@graphql-eslint/require-description': [
    'error',
    { types: true, DirectiveDefinition: true, FieldDefinition: true, InputValueDefinition: true, EnumValueDefinition: true },
  ],
  '@graphql-eslint/strict-id-in-types': [
    'error',
    {
      acceptedIdNames: ['id'],
      acceptedIdTypes: ['ID'],
      exceptions: {
        // A cache keeps these with the object that they belong to.
        suffixes: ['Connection', 'Edge', 'Payload'],
        // Values, of which a later one replaces the one before, and parts of a payload. A client is one viewer at a time.
        types: ['Attempts', 'Entrants', 'FairPlay', 'MemberAttribute', 'MemberBan', 'PageInfo', 'ScoreBucket', 'ScoreFormat', 'Season', 'EntryChange', 'PreviousEntry', 'QuarantineError', 'QuarantineResult', 'SubmitError', 'SubmitResult', 'Viewer', 'WebhookCircle'],
      },
    },
  ],
};

/** Lists that go forward only, as docs/reference/graphql.md says: the rule wants `last` and `before`, too. */
const FORWARD_ONLY = [
  'Board.quarantine',
  'Board.reports',
  'Board.segments',
  'Member.boards',
  'Member.friendRequests',
  'IntegrityRun.findings',
  'Query.accessTokens',
  'Query.erasureReceipts',
  'Query.integrityRuns',
  'Query.jobs',
  'Query.partitions',
  'Query.searchMembers',
  'Query.webhooks',
  'Standings.friends',
];

/** What a rule may find, by its name and the place. */
const ALLOWED = [
  ...FORWARD_ONLY.map(place => `relay-arguments ${place}`),
  // A subscription pushes the first page, as it is now: there is none after it.
  'relay-arguments Subscription.top',
  // The specification's own directives, as async-graphql writes them.
  'require-description include.if',
  'require-description skip.if',
  'require-description specifiedBy.url',
];

const path = process.argv[2];
const sdl = readFileSync(path, 'utf8');

/** The definition that begins on each line, such as `Board.title`. */
function places() {
  const places = new Map();
  let type = '';
  visit(parse(sdl), {
    enter(node) {
      if (!node.kind.endsWith('Definition') || !node.name) return;
      const isType = node.kind.endsWith('TypeDefinition') || node.kind === 'DirectiveDefinition';
      if (isType) type = node.name.value;
      places.set(node.name.loc.startToken.line, isType ? node.name.value : `${type}.${node.name.value}`);
    },
  });
  return places;
}

const messages = new Linter().verify(
  sdl,
  [
    {
      files: ['**/*.graphql'],
      languageOptions: { parser: plugin.parser, parserOptions: { graphQLConfig: { schema: path } } },
      plugins: { '@graphql-eslint': plugin },
      rules: RULES,
    },
  ],
  'schema.graphql',
);
const at = places();
const findings = messages.map(({ ruleId, message, line }) => {
  const rule = ruleId?.split('/').pop() ?? 'parser';
  return { key: `${rule} ${at.get(line) ?? line}`, message };
});
const wrong = findings.filter(({ key }) => !ALLOWED.includes(key)).map(({ key, message }) => `${key}: ${message}`);
const unneeded = ALLOWED.filter(allowed => findings.every(({ key }) => key !== allowed));
console.log(JSON.stringify({ wrong, unneeded }));
