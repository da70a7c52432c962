import { randomUUID } from 'node:crypto'
import { styleText } from 'node:util'
import { InvalidArgumentError } from 'commander'
import type { examine, Finding } from '../operate/doctor.js'
import { printable } from '../observe/printable.js'
import { shownFile } from '../settings/read.js'
import { CommandError, EXIT, isColoured, type AddCommand } from './command.js'
import { readLocalSettings } from './local-settings.js'

interface DoctorOptions {
  secret?: string
  config?: string
  post: boolean
  json?: true
}

const EXAMPLES = `
Goes the way of a delivery, by the code that delivers, with the secret, headers, allowNetworks and ca that the settings
in this folder have for the URL: the name, the network, the connection, the certificates, a signed track of the user
hookline-doctor, and once more the same with a wrong signature, which the endpoint is to refuse. Exits with 1 if a step
fails, and with 3 if there was no answer.

Examples:
  $ hookline-destination doctor https://a.example.com/hook
  $ hookline-destination doctor https://a.example.com/hook --no-post     # connects, and sends nothing
  $ hookline-destination doctor https://a.example.com/hook --secret "$SECRET" --json | jq .ok`

/** @param find - what examines an endpoint */
export function addDoctor(find: typeof examine): AddCommand {
  return (program) => {
    program
      .command('doctor')
      .description('find out why an endpoint gets nothing')
      .argument('<url>', 'the endpoint', readUrl)
      .option('-s, --secret <secret>', 'what signs (default: HOOKLINE_SECRET, or the settings)')
      .option('-c, --config <file>', 'settings that have it')
      .option('--no-post', 'send nothing')
      .option('--json', 'print JSON')
      .addHelpText('after', EXAMPLES)
      .action((url: string, options: DoctorOptions) => doctor(find, url, options))
  }
}

function readUrl(text: string): string {
  const url = /^https?:\/\//i.test(text) && URL.canParse(text) ? new URL(text) : undefined
  if (url?.username === '' && url.password === '' && url.hash === '') return text
  throw new InvalidArgumentError(
    'Expected a full URL with http or https, without a user or a fragment, such as https://example.com/hook.',
  )
}

async function doctor(find: typeof examine, url: string, options: DoctorOptions): Promise<void> {
  const { examination, from } = examinationOf(url, options)
  const colour = isColoured(process.stdout)
  const findings: Finding[] = []
  if (!options.json) console.error(from)
  for await (const finding of find(examination)) {
    findings.push(finding)
    if (!options.json) console.log(findingLines(finding, colour))
  }
  const failed = findings.find(({ state }) => state === 'failed')
  if (options.json) console.log(JSON.stringify({ ok: !failed, url, findings }))
  if (failed)
    throw new CommandError(UNREACHED.has(failed.step) ? EXIT.unreachable : EXIT.failed, '')
}

const UNREACHED = new Set<Finding['step']>(['dns', 'connection'])

function examinationOf(url: string, { secret, config, post }: DoctorOptions) {
  const local = readLocalSettings(config)
  const known = local?.settings.destinations.flatMap((destination) =>
    destination.webhooks
      .filter((endpoint) => endpoint.url === url)
      .map((endpoint) => ({ destination, endpoint })),
  )[0]
  const given = secret ?? (process.env['HOOKLINE_SECRET'] || undefined)
  const { allowNetworks = [], ca = [] } = local?.settings ?? {}
  const { webhookSecrets } = known?.destination ?? {}
  const file = local && shownFile(local.file)
  return {
    examination: {
      endpoint: known?.endpoint ?? { url, headers: {} },
      signing: {
        sharedSecret: given ?? known?.destination.sharedSecret,
        ...(webhookSecrets && { webhookSecrets }),
      },
      network: { allowNetworks, ca },
      post,
      messageId: `hookline-doctor-${randomUUID()}`,
    },
    from: known
      ? `As the endpoint of ${known.destination.name} in ${file}.`
      : file
        ? `No destination in ${file} has this URL: its networks and authorities count all the same.`
        : 'There are no settings here: without a secret, private networks or authorities of your own.',
  }
}

const STATES = { ok: ['green', 'ok'], failed: ['red', 'failed'], skipped: ['gray', '-'] } as const

/** A finding in a line, and its fix in a second one. */
function findingLines(finding: Finding, colour: boolean): string {
  const { step, state, found, fix, ms } = finding
  const [style, word] = STATES[state]
  const padded = word.padEnd(6)
  const time = ms === undefined ? '' : `  (${ms} ms)`
  const line = `${colour ? styleText(style, padded) : padded}  ${step.padEnd(11)}  ${printable(found)}${time}`
  return fix === undefined ? line : `${line}\n${' '.repeat(21)}${printable(fix)}`
}
