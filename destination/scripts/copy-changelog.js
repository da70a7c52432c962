// Copies the changelog of the repository beside the manifest, because npm packs no files from other folders.
import { copyFileSync } from 'node:fs'

copyFileSync(
  new URL('../../CHANGELOG.md', import.meta.url),
  new URL('../CHANGELOG.md', import.meta.url),
)
