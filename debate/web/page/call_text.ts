import { shellQuote } from "@gateway/shared/text";

type Args = Readonly<Record<string, unknown>>;

/** How a call looks: a command of a shell, or the name of a tool with its arguments. */
interface CallText {
  readonly isCommand: boolean;
  readonly text: string;
}

/** Tools that run one program. They describe only arguments that they know; other arguments must not be hidden. */
const COMMANDS: Readonly<Record<string, (args: Readonly<Record<string, string>>) => string | undefined>> = {
  run_local_command: ({ command, ...rest }) => isEmpty(rest) ? command : undefined,
  run_kubectl: ({ kubectl_args: text, ...rest }) =>
    text === undefined || !isEmpty(rest) ? undefined : /^\s*kubectl\s/.test(text) ? text : `kubectl ${text}`,
  run_ssh_command: ({ host, command, user = "", port = "22", key_path: key = "", ...rest }) => {
    if (host === undefined || command === undefined || !isEmpty(rest)) return undefined;
    const options = [...(key === "" ? [] : ["-i", key]), ...(port === "22" ? [] : ["-p", port])];
    const where = user === "" ? host : `${user}@${host}`;
    return `${["ssh", ...options, where].map(shellQuote).join(" ")} ${command}`;
  },
};

/** A call as it will run. The time limit is left out of a command. */
export function callText(tool: string, args: Args): CallText {
  const { timeout: _, ...rest } = args;
  const values = Object.entries(rest);
  const isPlain = values.every(([, value]) => typeof value === "string" || typeof value === "number");
  const describe = Object.hasOwn(COMMANDS, tool) ? COMMANDS[tool] : undefined;
  const command = isPlain
    ? describe?.(Object.fromEntries(values.map(([name, value]) => [name, String(value)])))
    : undefined;
  if (command !== undefined) return { isCommand: true, text: command };
  const words = Object.entries(args).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return { isCommand: false, text: [tool, ...words].join(" ") };
}

function isEmpty(rest: object): boolean {
  return Object.keys(rest).length === 0;
}
