import type { CallType } from '../../model/call.js'
import type { CollectorOptions } from '../collector.js'
import type { ColumnMap } from './columns.js'

/** The formats of the file. */
export const FORMATS = ['ndjson', 'csv'] as const
export type Format = (typeof FORMATS)[number]

/** The options that decide what a line means, as they are written, so that two imports can be compared. */
export function meaningOf({ format, type, map }: ImportOptions): string {
  return [
    ...(format === undefined ? [] : [`--format ${format}`]),
    ...(type === undefined ? [] : [`--type ${type}`]),
    ...Object.entries(map).map(([column, field]) => `--map '${column}=${field}'`),
  ].join(' ')
}

/** The options of the command line. */
export interface ImportOptions extends CollectorOptions {
  format?: Format
  type?: CallType
  map: ColumnMap
  rate?: number
  name?: string
  progress?: string
  restart?: true
  continue?: true
  bad?: string
  dryRun?: true
  json?: true
}
