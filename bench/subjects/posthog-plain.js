// PostHog with its default gzip turned off.
import { create as createDefault } from './posthog.js'

export const create = (options) => createDefault({ ...options, gzip: false })
