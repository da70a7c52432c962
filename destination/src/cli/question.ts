import { createInterface } from 'node:readline'
import { Option } from 'commander'
import { WAITING_CHOICES } from '../model/setting.js'
import { CommandError, EXIT } from './command.js'

/** Whether there is somebody to ask: a script has no terminal, and reads JSON. */
export function canAsk(json: true | undefined): boolean {
  return !json && process.stdin.isTTY
}

/**
 * Asks on the terminal. The standard output stays free for results.
 *
 * @returns what was typed; an empty text after Ctrl-C and Ctrl-D.
 */
export async function question(text: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const typed = await new Promise<string | undefined>((resolve) => {
    lines.once('close', () => {
      resolve(undefined)
    })
    lines.question(text, resolve)
  })
  lines.close()
  if (typed === undefined) console.error('') // the cursor is still behind the question
  return typed?.trim() ?? ''
}

/** What a command says that was not confirmed. */
export const UNCHANGED = 'Nothing was changed.'

/**
 * Asks for the confirmation of something that cannot be taken back.
 *
 * @param word - What to type.
 * @throws CommandError if it is not confirmed.
 */
export async function confirm(
  cost: string,
  what: string,
  word: string,
  { yes, json }: { yes?: true; json?: true },
): Promise<void> {
  if (yes) return
  if (!canAsk(json)) {
    const message = `${cost}\n${UNCHANGED} Give --yes to ${what}.`
    throw new CommandError(EXIT.usage, message, 'not_confirmed')
  }
  const typed = await question(`${cost}\nType ${word} to ${what}: `)
  if (typed !== word) throw new CommandError(EXIT.failed, UNCHANGED)
}

/** What to do if messages wait for what is deleted. */
export const CHOOSE_WAITING = 'Give --waiting keep or --waiting discard'

/** The option that says what becomes of messages of what is deleted. @param which - Which messages these are. */
export function waitingOption(which: string): Option {
  const what = `what becomes of the messages ${which}`
  return new Option('--waiting <choice>', what).choices(WAITING_CHOICES)
}
