import { loadDriver, type DriverName } from '../../../src/store/sqlite/driver.js'
import { storeContract } from '../contract.js'
import { recordsContract } from '../contract-records.js'
import { searchContract } from '../contract-search.js'
import { sqliteSubject } from './subject.js'

for (const driver of ['node:sqlite', '@photostructure/sqlite'] satisfies DriverName[]) {
  const missing = await loadDriver(driver).then(
    () => undefined,
    (error: unknown) => error as Error,
  )
  if (missing) {
    console.log(`Left out: the store by ${driver}. ${missing.message}`)
  } else {
    storeContract(`sqlite: by ${driver}`, () => sqliteSubject(driver))
    recordsContract(`sqlite: by ${driver}`, () => sqliteSubject(driver))
    searchContract(`sqlite: by ${driver}`, () => sqliteSubject(driver))
  }
}
