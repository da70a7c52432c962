import { readBody } from './body-file.js'
import { CommandError, EXIT, type AddCommand } from './command.js'
import { requireSecrets, type SecretOptions } from './secrets.js'

interface VerifyOptions extends SecretOptions {
  signature: string
  json?: true
}

const EXAMPLES = `
Checks the bytes of the file exactly as they are, with the code of receivers. The secret is taken from --secret, from
HOOKLINE_SECRET, or from the settings in this folder. The first of these that is given is used. Exits with 1 if the
signature is wrong.

Examples:
  $ hookline-destination verify body.json --signature 6f3a1c9e0b7d2f4a5c8e1d3b6a9f0c2e4d7b8a1f
  $ hookline-destination verify --secret "$SECRET" --signature "$X_SIGNATURE" < body.json`

export const addVerify: AddCommand = (program) => {
  program
    .command('verify')
    .description('check the X-Signature of a body')
    .argument('[file]', 'file with the body; - reads the standard input', '-')
    .requiredOption('--signature <hex>', 'the value of the header X-Signature (required)')
    .option('-s, --secret <secret>', "the destination's sharedSecret")
    .option('-d, --destination <name>', 'take the secret of this destination from the settings')
    .option('-c, --config <file>', 'settings file that has the secrets')
    .option('--json', 'print JSON')
    .addHelpText('after', EXAMPLES)
    .action(verify)
}

async function verify(file: string, options: VerifyOptions): Promise<void> {
  const { secrets, from } = await requireSecrets(options)
  const body = await readBody(file)
  const { checkSignature } = await import('./signature.js')
  const verdict = checkSignature(secrets, body, options.signature)
  const isRight = verdict.signature === 'ok'
  if (options.json) {
    console.log(JSON.stringify({ ok: isRight, bytes: body.length, ...verdict }))
    if (!isRight) throw new CommandError(EXIT.failed, '')
    return
  }
  const reason = verdict.reason === undefined ? '' : `\n${verdict.reason}`
  const tested = `checked with ${from}, over ${body.length} bytes.`
  if (!isRight) throw new CommandError(EXIT.failed, `The signature is WRONG: ${tested}${reason}`)
  console.log(`The signature is right: ${tested}${reason}`)
}
