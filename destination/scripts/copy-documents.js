// Copies what the package has of the repository beside its manifest, because npm packs no files from other folders.
import { copyFileSync } from 'node:fs'

const root = new URL('../../', import.meta.url)
const here = new URL('../', import.meta.url)
copyFileSync(new URL('CHANGELOG.md', root), new URL('CHANGELOG.md', here))
copyFileSync(new URL('docs/openapi.yaml', root), new URL('openapi.yaml', here))
