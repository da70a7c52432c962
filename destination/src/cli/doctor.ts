import { randomUUID } from 'node:crypto'
import { InvalidArgumentError } from 'commander'
import type { examine, Finding } from '../operate/doctor.js'
import { printable } from '../observe/printable.js'
import { expandEnvironment } from '../settings/environment.js'
import { shownFile } from '../settings/file.js'
import { problemOfUrl } from '../settings/url.js'
import {
  CommandError,
  EXIT,
  fromEnvironment,
  isColoured,
  paint,
  type AddCommand,
} from './command.js'
import { readLocalSettings } from './local-settings.js'

interface DoctorOptions {
  secret?: string
  config?: string
  post: boolean
  json?: true
}

const EXAMPLES = `
Checks each step of a delivery, with the same code that delivers: the DNS name, the network, the connection, the
certificate, a signed track call of the user hookline-doctor, and the same call with a wrong signature, which the
endpoint must refuse. During a rotation it tries both secrets. The secret, headers, allowNetworks and ca are taken from the settings in this folder. Exits with 1
if a step fails, and with 3 if the endpoint cannot be reached or does not answer.

Examples:
  $ hookline-destination doctor https://a.example.com/hook
  $ hookline-destination doctor https://a.example.com/hook --no-post     # connects, but sends nothing
  $ hookline-destination doctor https://a.example.com/hook --secret "$SECRET" --json | jq .ok`

/** @param find - Examines an endpoint. */
export function addDoctor(find: typeof examine): AddCommand {
  return (program) => {
    program
      .command('doctor')
      .description('find out why an endpoint gets no messages')
      .argument('<url>', 'URL of the endpoint', readUrl)
      .option(
        '-s, --secret <secret>',
        'secret to sign with (default: HOOKLINE_SECRET or the settings)',
      )
      .option('-c, --config <file>', 'settings file that has the endpoint')
      .option('--no-post', 'only connect, and send no call')
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action((url: string, options: DoctorOptions) => doctor(find, url, options))
  }
}

function readUrl(text: string): string {
  if (problemOfUrl(text) === undefined) return text
  throw new InvalidArgumentError(
    'Expected a full URL with http or https, such as https://example.com/hook: without a user, a fragment (#…), a control character ' +
      'or white space at the end, and with a port from 1.',
  )
}

async function doctor(find: typeof examine, url: string, options: DoctorOptions): Promise<void> {
  const { examination, from } = await examinationOf(url, options)
  const colour = isColoured(process.stdout)
  const findings: Finding[] = []
  if (!options.json) console.error(from)
  for await (const finding of find(examination)) {
    findings.push(finding)
    if (!options.json) console.log(findingLines(finding, colour))
  }
  const failed = findings.find(({ state }) => state === 'failed')
  if (options.json) console.log(JSON.stringify({ ok: !failed, url, findings }))
  if (failed) throw new CommandError(isReached(failed) ? EXIT.failed : EXIT.unreachable, '')
}

/** Whether the endpoint answered, or would never be asked. If not, the same command may succeed later. */
function isReached({ step, code }: Finding): boolean {
  if (step === 'dns' || step === 'connection') return false
  return code !== 'timeout' && code !== 'connection_reset' && code !== 'connection_failed'
}

async function examinationOf(url: string, { secret, config, post }: DoctorOptions) {
  const uncompared = new Set<string>()
  const isExamined = (given: { url?: unknown }) => {
    const { value, problems } = expandEnvironment(given.url, process.env)
    for (const { message } of problems) uncompared.add(message)
    return value === url
  }
  const local = await readLocalSettings(config, ['destinations', 'allowNetworks', 'ca'], {
    destinations: ({ webhooks }) =>
      Array.isArray(webhooks) &&
      webhooks.some((each) => isExamined((each ?? {}) as { url?: unknown }))
        ? ['name', 'webhooks', 'sharedSecret', 'webhookSecret']
        : [],
    webhooks: isExamined,
  })
  const known = local?.settings.destinations.flatMap((destination) =>
    destination.webhooks
      .filter((endpoint) => endpoint.url === url)
      .map((endpoint) => ({ destination, endpoint })),
  )[0]
  const given = secret ?? fromEnvironment('HOOKLINE_SECRET')
  const { allowNetworks = [], ca = [] } = local?.settings ?? {}
  const { otherSecret, webhookSecrets } = known?.destination ?? {}
  const file = local && shownFile(local.file)
  return {
    examination: {
      endpoint: known?.endpoint ?? { url, headers: {} },
      signing: {
        sharedSecret: given ?? known?.destination.sharedSecret,
        ...(given === undefined && { otherSecret }),
        ...(webhookSecrets && { webhookSecrets }),
      },
      network: { allowNetworks, ca },
      post,
      messageId: `hookline-doctor-${randomUUID()}`,
    },
    from: known
      ? `The endpoint belongs to the destination ${known.destination.name} in ${file}. Its settings are used.`
      : file
        ? `No destination in ${file} has this URL. Only allowNetworks and ca are taken from this file.${notCompared(uncompared)}`
        : 'There are no settings in this folder. Private networks are not allowed, and only the usual authorities are trusted.',
  }
}

/** Why some URLs of the settings could not be compared. */
function notCompared(problems: ReadonlySet<string>): string {
  return problems.size === 0 ? '' : ` Some URLs are not known here: ${[...problems].join(' ')}`
}

const STATES = { ok: ['green', 'ok'], failed: ['red', 'failed'], skipped: ['gray', '-'] } as const

/** Prints a finding in one line, and its fix in a second one. */
function findingLines(finding: Finding, colour: boolean): string {
  const { step, state, found, fix, ms } = finding
  const [style, word] = STATES[state]
  const padded = word.padEnd(6)
  const time = ms === undefined ? '' : `  (${ms} ms)`
  const line = `${colour ? paint(style, padded) : padded}  ${step.padEnd(11)}  ${printable(found)}${time}`
  return fix === undefined ? line : `${line}\n${' '.repeat(21)}${printable(fix)}`
}
