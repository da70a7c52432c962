import { afterAll } from 'vitest'
import { storeContract } from '../contract.js'
import { audiencesContract } from '../contract-audiences.js'
import { searchContract } from '../contract-search.js'
import { startServer } from './server.js'
import { postgresSubject } from './subject.js'

// With TEST_POSTGRES_URL the tests use a given database. They need only the right to create schemas in it.
const given = process.env['TEST_POSTGRES_URL']
const server = given === undefined ? await startServer({ fsync: 'off' }) : undefined

afterAll(() => server?.dispose())

const make = () => postgresSubject(given ?? server?.url() ?? '', given !== undefined)
storeContract('postgres:', make)
searchContract('postgres:', make)
audiencesContract('postgres:', make)
