/**
 * How many random rounds a test plays. The default is for each change; `RUNS=1000 npx vitest run --project destination apply`
 * searches for longer.
 */
export const rounds = (byDefault: number): number => Number(process.env['RUNS'] ?? byDefault)
