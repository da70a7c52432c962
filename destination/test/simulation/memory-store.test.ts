import { createSubject, storeContract } from '../store/contract.js'
import { MemoryTables, openMemory } from './memory-store.js'

storeContract('the store of the simulation', () => {
  let tables: MemoryTables | undefined
  return createSubject(
    (now) => Promise.resolve(openMemory((tables ??= new MemoryTables(now)))),
    () => Promise.resolve(),
  )
})
