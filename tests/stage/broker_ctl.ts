import { ROOT } from "./service_command.ts";

/** Runs `broker-ctl` from source, with no more than it needs. */
export async function runBrokerCtl(args: readonly string[], folder: string): Promise<Deno.CommandOutput> {
  return await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--cached-only",
      "--ignore-env",
      // init looks at all that leads to the folder, and at who owns it.
      "--allow-read",
      "--allow-sys=uid",
      `--allow-write=${folder}`,
      "--allow-net=127.0.0.1",
      `${ROOT}ctl/main.ts`,
      ...args,
    ],
    stdin: "null",
    env: { NO_COLOR: "1" },
  }).output();
}
