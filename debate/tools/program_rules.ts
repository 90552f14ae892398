/**
 * Only options that read are allowed. An option is missing if it writes, deletes, follows, repeats endlessly, runs
 * another program, reads a list of files from a file, or sends data elsewhere. `zgrep` is missing because it is a
 * shell script.
 */
import { type Argument, type ArgumentRule, checkArguments, shapes, splitCommand } from "./argv.ts";
import { type ProgramRequest, refuse, ToolFailure } from "./run_program.ts";
import { GREP_EXCLUSIONS } from "../context/secret_files.ts";

type ProgramRule = ArgumentRule | { readonly commands: Readonly<Record<string, ArgumentRule>> };

const NUMBER = /^\d{1,9}$/;
const COUNT = /^(?:[1-9]|10)$/;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.@:+-]{0,254}$/;
const NAMES = /^[A-Za-z0-9_%][A-Za-z0-9_.,%:=@+-]{0,254}$/;
const SORT_KEYS = /^[+-]?[a-z_%]{1,20}(?:,[+-]?[a-z_%]{1,20}){0,5}$/;
const HOST = /^[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,252}[A-Za-z0-9_.])?$/;
const TIME = /^[A-Za-z0-9:.+ -]{1,60}$/;
const SIZE = /^[+-]?\d{1,12}[A-Za-z]?$/;
/** Formats of `ps`, except for environments. */
const COLUMNS = /^(?!.*environ)[A-Za-z0-9_%][A-Za-z0-9_.,%:=@+-]{0,254}$/i;
/** Properties of units, except for environments, commands and credentials. */
const PROPERTY =
  "Id|Names|Description|LoadState|ActiveState|SubState|UnitFileState|Result|Restart|RestartUSec|NRestarts|Type|MainPID" +
  "|ControlGroup|FragmentPath|DropInPaths|After|Before|Requires|Wants|PartOf|TriggeredBy|Triggers|User|Group|Slice" +
  "|OOMPolicy|Job|NeedDaemonReload|ConditionResult|AssertResult|StatusText|StatusErrno|WatchdogUSec" +
  "|ExecMain(?:PID|Code|Status|StartTimestamp|ExitTimestamp)|[A-Za-z]{1,40}Timestamp(?:Monotonic)?" +
  "|(?:Memory|CPU|Tasks|IO|IP|Limit|Default(?:Memory|CPU|Tasks|Limit)|Next|Last)[A-Za-z]{1,40}";
const PROPERTIES = new RegExp(`^(?:${PROPERTY})(?:,(?:${PROPERTY})){0,30}$`);
const PROPERTIES_SHOWN =
  "Id,Description,LoadState,ActiveState,SubState,UnitFileState,Result,MainPID,NRestarts,ExecMainStatus,ActiveEnterTimestamp,MemoryCurrent,TasksCurrent";
const UNIT = /^[A-Za-z0-9_*?][A-Za-z0-9_.@:*?\\-]{0,254}$/;
const SOCKET_WORD = /^[A-Za-z0-9_.:*=/[\]()!<>-]{1,255}$/;
const ADDRESS_WORD = /^[A-Za-z0-9_.:@/]{1,255}$/;

const hostLookup: ArgumentRule = { operands: [HOST, HOST], min: 1 };

const ends: ArgumentRule = {
  flags: "q v",
  values: shapes([SIZE, "n c lines bytes"]),
  dashNumber: "n",
  rest: "path",
  min: 1,
};

export const PROGRAM_RULES: Readonly<Record<string, ProgramRule>> = {
  // Processes and the machine
  ps: {
    flags: "A a d e f F j l L m T w x forest headers no-headers",
    values: { o: COLUMNS, p: NAMES, C: NAMES, u: NAMES, t: NAMES, sort: SORT_KEYS, ppid: NAMES },
    // BSD style without e and E, which show environments.
    rest: /^[axujlfmwTrn]{1,10}$/,
  },
  free: { flags: "b k m g h w t l human si wide total" },
  uptime: { flags: "p s pretty since" },
  uname: { flags: "a s n r v m p i o all" },
  date: { flags: "u R utc universal", rest: /^\+[%A-Za-z0-9:., _/-]{1,100}$/ },
  id: { flags: "u g G n r z", rest: NAME },
  whoami: {},
  nproc: { flags: "all" },
  hostname: { flags: "f s i I d fqdn short" },
  vmstat: { flags: "a s d D w t", operands: [COUNT, COUNT], check: needsCount },
  iostat: { flags: "c d h k m t x y z N", operands: [COUNT, COUNT], check: needsCount },
  sysctl: { flags: "a n e", rest: /^[a-z0-9_]+(?:[./][A-Za-z0-9_-]+)*$/ },
  dmesg: {
    flags: "T t k u x P ctime notime kernel userspace decode nopager",
    values: { l: NAMES, f: NAMES, level: NAMES, facility: NAMES, since: TIME, until: TIME },
  },
  journalctl: {
    flags: "a b e k m q r x all no-pager quiet reverse catalog utc list-boots disk-usage no-hostname dmesg",
    values: shapes(
      [NUMBER, "n lines"],
      [UNIT, "u unit"],
      [NAMES, "p priority"],
      // Without all fields, because those of a crash contain the environment.
      [/^(?:short|short-iso|short-precise|short-full|cat)$/, "o output"],
      ["text", "g grep"],
      [NAME, "t identifier"],
      [TIME, "S U since until"],
      [/^-?\d{1,3}$/, "boot"],
    ),
    always: ["--no-pager"],
    unless: { options: ["n", "lines", "list-boots", "disk-usage"], add: ["-n", "200"] },
  },
  systemctl: {
    commands: {
      ...Object.fromEntries(
        "status list-units list-timers list-sockets is-active is-enabled is-failed".split(" ").map((name) => [
          name,
          {
            flags: "a l q all full failed no-legend plain",
            values: shapes([NUMBER, "n lines"], [NAMES, "t type state"]),
            rest: UNIT,
            always: ["--no-pager"],
          },
        ]),
      ),
      show: {
        flags: "a l all full",
        values: { p: PROPERTIES, property: PROPERTIES },
        rest: UNIT,
        always: ["--no-pager"],
        unless: { options: ["p", "property"], add: [`--property=${PROPERTIES_SHOWN}`] },
      },
    },
  },
  docker: {
    commands: {
      ps: { flags: "a l q s no-trunc all size", values: { n: NUMBER, f: NAMES, filter: NAMES } },
      logs: {
        flags: "t timestamps details",
        values: { n: NUMBER, tail: NUMBER, since: TIME, until: TIME },
        operands: [NAME],
        min: 1,
        unless: { options: ["n", "tail"], add: ["--tail", "200"] },
      },
      // Without `inspect`, which shows the environment.
      stats: { flags: "a all no-stream no-trunc", rest: NAME, always: ["--no-stream"] },
    },
  },

  // Files
  ls: {
    flags: "1 a A d F g h i l n o p Q r R s S t u U v X Z all almost-all human-readable recursive reverse",
    rest: "path",
  },
  stat: { flags: "L f t", values: { c: "text" }, rest: "path", min: 1 },
  cat: { flags: "A b e E n s t T v", rest: "path", min: 1 },
  head: ends,
  tail: ends,
  wc: { flags: "c l L m w bytes lines words", rest: "path", min: 1 },
  grep: {
    flags:
      "E F G c h H i I l L n o q r s v w x count ignore-case invert-match line-number recursive word-regexp extended-regexp fixed-strings",
    values: shapes([NUMBER, "A B C m max-count"], [/^[A-Za-z0-9_.*?-]{1,100}$/, "include exclude"]),
    // With -e, the first operand would be a file, so -e is missing.
    operands: ["text"],
    rest: "path",
    min: 1,
    always: ["-D", "skip"],
    with: { options: ["r", "recursive"], add: GREP_EXCLUSIONS },
  },
  find: {
    style: "find",
    flags: "print empty mount xdev not o a",
    values: shapes(
      [NUMBER, "maxdepth mindepth"],
      ["text", "name iname path"],
      [/^[bcdflps]$/, "type"],
      [SIZE, "size mtime mmin ctime cmin"],
      [NAME, "user group"],
      [/^[/-]?[0-7ugoarwxst=+,]{1,30}$/, "perm"],
    ),
    rest: "path",
    min: 1,
  },
  du: {
    flags: "a b c h k m s x all human-readable summarize total one-file-system",
    values: { d: NUMBER, "max-depth": NUMBER },
    rest: "path",
  },
  df: {
    flags: "a h H i k l m P T all human-readable inodes local print-type",
    rest: /^\/[A-Za-z0-9_./@:-]{0,254}$/,
  },

  // Network
  ss: {
    flags:
      "H n r a l o e m p i s 4 6 t u w x O numeric all listening processes summary tcp udp unix ipv4 ipv6 no-header extended memory info",
    values: { f: NAME, family: NAME },
    rest: SOCKET_WORD,
  },
  netstat: {
    flags: "a e g i l n o p r s t u w x 4 6 all listening numeric programs route statistics tcp udp wide W",
  },
  lsof: { flags: "n P t U l i R", values: { p: NAMES, u: NAMES, c: NAME, s: NAMES } },
  ip: {
    style: "one-dash",
    flags: "4 6 s d o br brief j json stats details p",
    operands: [
      /^(?:a|addr|address|l|link|r|route|n|neigh|neighbor|rule|maddr)$/,
      /^(?:show|list|ls|get)$/,
    ],
    rest: ADDRESS_WORD,
    min: 1,
  },
  ping: {
    flags: "4 6 n q D",
    values: { c: COUNT, w: NUMBER, W: NUMBER, s: /^\d{1,4}$/ },
    operands: [HOST],
    min: 1,
    unless: { options: ["c"], add: ["-c", "3"] },
  },
  dig: {
    flags: "4 6",
    values: { t: NAME, p: NUMBER, x: HOST },
    rest:
      /^(?:@[A-Za-z0-9_][A-Za-z0-9_.:-]{0,252}|\+(?:no)?(?:short|trace|all|answer|stats|tcp|dnssec|recurse|comments|question|cmd)|[A-Za-z0-9_][A-Za-z0-9_.-]{0,252})$/,
  },
  nslookup: hostLookup,
  host: { ...hostLookup, flags: "a v 4 6", values: { t: NAME, W: NUMBER } },
  getent: {
    operands: [/^(?:ahosts|ahostsv4|ahostsv6|group|hosts|networks|passwd|protocols|services)$/],
    rest: HOST,
    min: 1,
  },
};

const NETWORK = "hostname sysctl ss netstat lsof ip ping dig nslookup host getent".split(" ");
const PROCESSES = "ps systemctl ss netstat lsof".split(" ");

/** The parts of the machine that a program reads or uses. */
export function needsOf(program: string): NonNullable<ProgramRequest["needs"]> {
  return [
    ...(NETWORK.includes(program) ? ["network" as const] : []),
    ...(PROCESSES.includes(program) ? ["processes" as const] : []),
  ];
}

function needsCount(operands: readonly string[]): void {
  if (operands.length === 1) refuse("the interval needs a count");
}

export function checkCommand(text: string): { readonly program: string; readonly args: readonly Argument[] } {
  const [program = "", ...words] = splitCommand(text);
  if (!Object.hasOwn(PROGRAM_RULES, program)) {
    const allowed = Object.keys(PROGRAM_RULES).join(", ");
    refuse(`program ${JSON.stringify(program)} is not allowed, only ${allowed}`);
  }
  const rule = PROGRAM_RULES[program] ?? {};
  try {
    if (!("commands" in rule)) return { program, args: checkArguments(words, rule) };
    const [command = "", ...others] = words;
    if (!Object.hasOwn(rule.commands, command)) {
      const allowed = Object.keys(rule.commands).join(", ");
      refuse(`subcommand ${JSON.stringify(command)} is not allowed, only ${allowed}`);
    }
    const checked = checkArguments(others, rule.commands[command] ?? {});
    return { program, args: [{ kind: "word", text: command }, ...checked] };
  } catch (error) {
    throw error instanceof ToolFailure ? new ToolFailure(`${program}: ${error.message}`) : error;
  }
}
