/** The kind of the records of pauses. Their names are those of the destinations. */
export const PAUSE_KIND = 'pause'

/** Who asks for a change, for the audit log. */
export interface Actor {
  /** Who the client says that it is; `null` if it does not say. */
  by: string | null
  /** The address that the request came from; `null` without a request. */
  from: string | null
}
