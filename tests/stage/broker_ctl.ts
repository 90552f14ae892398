import { ROOT } from "./service_command.ts";

/**
 * Runs `broker-ctl` from source with only the permissions that it needs.
 *
 * @param env of the programs that it starts: with an environment, it may start `ssh-keygen`
 */
export async function runBrokerCtl(
  args: readonly string[],
  folder: string,
  env?: Readonly<Record<string, string>>,
): Promise<Deno.CommandOutput> {
  return await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--cached-only",
      "--ignore-env",
      // init checks the owners of the directory and of its parents.
      "--allow-read",
      "--allow-sys=uid",
      `--allow-write=${folder}`,
      "--allow-net=127.0.0.1",
      ...(env === undefined ? [] : ["--allow-run=ssh-keygen"]),
      `${ROOT}ctl/main.ts`,
      ...args,
    ],
    stdin: "null",
    env: { ...env, NO_COLOR: "1" },
  }).output();
}
