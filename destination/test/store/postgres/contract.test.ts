// @module-tag long
import { afterAll } from 'vitest'
import { storeContract } from '../contract.js'
import { audiencesContract } from '../contract-audiences.js'
import { recordsContract } from '../contract-records.js'
import { searchContract } from '../contract-search.js'
import { startServer } from './server.js'
import { postgresSubjects } from './subject.js'

// With TEST_POSTGRES_URL the tests use a given database. They need only the right to create schemas in it.
const given = process.env['TEST_POSTGRES_URL']
const server = given === undefined ? await startServer({ fsync: 'off' }) : undefined
const subjects = await postgresSubjects(given ?? server?.url() ?? '')

afterAll(async () => {
  await subjects.dispose()
  await server?.dispose()
})

storeContract('postgres:', subjects.make)
searchContract('postgres:', subjects.make)
audiencesContract('postgres:', subjects.make)
recordsContract('postgres:', subjects.make)
