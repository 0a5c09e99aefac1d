// GraphQL over HTTP, audited: prints one line of JSON, the results of every audit against the server at the address given.

import { auditServer } from 'graphql-http';

const results = await auditServer({ url: process.argv[2], fetchFn: fetch });
const brief = results.map(({ id, name, status, reason }) => ({ id, name, status, reason }));
console.log(JSON.stringify(brief));
