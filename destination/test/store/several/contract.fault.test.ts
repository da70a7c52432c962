import { afterAll } from 'vitest'
import { storeContract } from '../contract.js'
import { audiencesContract } from '../contract-audiences.js'
import { recordsContract } from '../contract-records.js'
import { searchContract } from '../contract-search.js'
import { startServer } from '../postgres/server.js'
import { severalSubjects } from './subject.js'

const server = await startServer({ fsync: 'off' })
const databases = [await server.database(), await server.database(), await server.database()]
const subjects = await severalSubjects(databases)

afterAll(async () => {
  await subjects.dispose()
  await server.dispose()
})

storeContract('three servers:', subjects.make)
searchContract('three servers:', subjects.make)
audiencesContract('three servers:', subjects.make)
recordsContract('three servers:', subjects.make)
