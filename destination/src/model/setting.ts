/** What the settings have many of, and what can be changed at run time. */
export const KINDS = ['source', 'destination', 'tenant'] as const

/** What a setting is: a source, a destination or a tenant. */
export type Kind = (typeof KINDS)[number]

/** What can become of the messages that wait for a destination that is deleted. */
export const WAITING_CHOICES = ['keep', 'discard'] as const

export type WaitingChoice = (typeof WAITING_CHOICES)[number]
