// RudderStack with its default gzip turned off.
import { create as createDefault } from './rudderstack.js'

export const create = (options) => createDefault({ ...options, gzip: false })
