// Says what `npm test` left out.
console.log(
  'Left out: what takes long, such as the tests of PostgreSQL and of processes that end (npm run test:long), the code of the ' +
    'documents and examples (npm run test:docs), processes that are killed and disks that fill up (npm run test:faults), and the ' +
    'page in a browser, which needs a Chromium (npm run test:page).',
)
