import { Argument, InvalidArgumentError, Option } from 'commander'
import { CALL_TYPES } from '../model/call.js'
import { addCollectorOptions, COLLECTOR_HELP } from './collector.js'
import { severalTimes, wholeNumber, type AddCommand } from './command.js'
import { divide, toField, type ColumnMap } from './import/columns.js'
import { FORMATS, type ImportOptions } from './import/options.js'

const EXAMPLES = `
NDJSON has one call in each line: its type, and the fields that the method of the client takes. CSV has one column for
each field (userId or user_id). The columns properties.…, traits.… and context.… set fields within these objects;
numbers, booleans, lists and objects in them are read as JSON. Give each call a timestamp: a call without one gets the
current time.

The progress is saved in FILE.progress. If the import is stopped or killed, the same command continues from there, and
also continues the file of --bad. A signal stops it within 5 s. Some calls may then be sent twice, but they are forwarded
once: a line without a messageId gets one that is derived from the name of the file, the number of the line and its
call. So a file that is imported again is forwarded once, and equal lines of two files are both forwarded. A file that
was renamed is another import, unless --name gives the old name. The standard input has no name: give it one with --name.

The progress is that of one collector and one write key. Once a call was accepted, the command is refused with others,
and you choose: --restart sends them the whole file, --progress OTHER does so and keeps this progress, and --continue
sends only the rest, for a collector that has a new address or a source that has a new key.

A line that is not a valid call is reported, and the import continues with the next line. A number that JavaScript
cannot hold exactly is reported with its line, and its call is imported. While the collector does not answer, the import
waits. A call for which the collector fails again and again, while it accepts others, is given up after some two minutes
and reported; the same command then sends it again. The calls are bulk work: the destinations get other messages first.

${COLLECTOR_HELP}

Exit codes: 0 all calls were accepted, 1 some lines were refused, now or by an earlier import of the file, the file is
not valid CSV, or the collector refuses everything, 2 the command line is wrong, 3 stopped before the end, or some calls
were given up: run the same command to continue.

Examples:
  $ hookline-destination import history.ndjson --dry-run
  $ hookline-destination import history.ndjson --rate 2000
  $ hookline-destination import users.csv --type identify --map 'email=traits.email' --map 'notes='
  $ zcat history.ndjson.gz | hookline-destination import - --bad bad.ndjson`

export const addImport: AddCommand = (program) => {
  const command = program
    .command('import')
    .description('send calls from a file with the client')
    .addArgument(
      new Argument('<file>', 'NDJSON or CSV file; - reads NDJSON from the standard input'),
    )
    .addOption(
      new Option('--format <format>', 'format of the file (default: from its name)').choices(
        FORMATS,
      ),
    )
    .addOption(
      new Option('--type <type>', 'type of the calls that have no type').choices(CALL_TYPES),
    )
    .option(
      '--map <column=field>',
      'field of a CSV column; an empty field leaves the column out',
      severalTimes(addToMap),
      {},
    )
  addCollectorOptions(command)
    .option('--rate <n>', 'most calls per second', wholeNumber(1, 1_000_000))
    .option(
      '--name <name>',
      'name of the import, for the ids of its messages (default: name of the file)',
    )
    .option('--progress <file>', 'file that saves the progress (default: FILE.progress)')
    .option('--restart', 'start at the first line, even if an earlier import got further')
    .addOption(
      new Option(
        '--continue',
        'continue the earlier import, although the collector has a new address or the source a new key',
      ).conflicts('restart'),
    )
    .option('--bad <file>', 'write the number and the problem of each refused line, as NDJSON')
    .option('--dry-run', 'check all lines, but send nothing')
    .option('--json', 'print the outcome as JSON')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string, options: ImportOptions) => {
      const { run } = await import('./import/run.js')
      await run(file, options)
    })
}

function addToMap(text: string, map: ColumnMap): ColumnMap {
  const divided = divide(text)
  if (!divided)
    throw new InvalidArgumentError(
      "Expected a column and its field, such as 'total=properties.total'.",
    )
  const { column, field } = divided
  if (Object.hasOwn(map, column)) {
    throw new InvalidArgumentError('The column is given twice. Give each column once.')
  }
  const added = { ...map, [column]: field }
  try {
    toField(column, added)
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message)
  }
  return added
}
