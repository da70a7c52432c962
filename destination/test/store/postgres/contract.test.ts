import { afterAll } from 'vitest'
import { storeContract } from '../contract.js'
import { audiencesContract } from '../contract-audiences.js'
import { searchContract } from '../contract-search.js'
import { startServer } from './server.js'
import { postgresSubject } from './subject.js'

// Of a server that runs somewhere the suite needs no more than a database in which it may make schemas.
const given = process.env['TEST_POSTGRES_URL']
const server = given === undefined ? await startServer({ fsync: 'off' }) : undefined

afterAll(() => server?.dispose())

const make = () => postgresSubject(given ?? server?.url() ?? '', given !== undefined)
storeContract('postgres:', make)
searchContract('postgres:', make)
audiencesContract('postgres:', make)
