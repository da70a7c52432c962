import { readBody } from './body-file.js'
import { CommandError, EXIT, type AddCommand } from './command.js'
import { requireSecrets, type SecretOptions } from './secrets.js'

const EXAMPLES = `
Signs the bytes of the file exactly as they are. The secret is taken from --secret, from HOOKLINE_SECRET, or from the
settings in this folder. The first of these that is given is used.

Examples:
  $ hookline-destination sign body.json
  $ printf '{"type":"track"}' | hookline-destination sign --secret "$SECRET"
  $ curl http://127.0.0.1:4000/ --data-binary @body.json -H "X-Signature: $(hookline-destination sign body.json)"`

export const addSign: AddCommand = (program) => {
  program
    .command('sign')
    .description('print the X-Signature of a body')
    .argument('[file]', 'file with the body; - reads the standard input', '-')
    .option('-s, --secret <secret>', "the destination's sharedSecret")
    .option('-d, --destination <name>', 'take the secret of this destination from the settings')
    .option('-c, --config <file>', 'settings file that has the secret')
    .option('--json', 'print JSON')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string, options: SecretOptions & { json?: true }) => {
      const { secrets, from } = await requireSecrets(options)
      const [secret = '', other] = new Set(secrets)
      if (other !== undefined) {
        const message = `There are several secrets: ${from}. Choose one with --destination or --secret.`
        throw new CommandError(EXIT.usage, message)
      }
      const body = await readBody(file)
      const { signWebhook } = await import('hookline/webhook')
      const signature = signWebhook(secret, body)
      console.log(options.json ? JSON.stringify({ signature, bytes: body.length }) : signature)
    })
}
