/**
 * `deno task debate:demo`: one debate about a scripted incident. The models replay a script. The tools run against real
 * remains of the incident: a Git repository, log files and a service on loopback. It needs no token and no network.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { errorText } from "@gateway/shared/errors";
import { type ScenarioWorld, SHIPPED_SCENARIOS, startScenario } from "../debate/scenario_fixture.ts";

const USAGE = `Usage: deno task debate:demo [--scenario <name>] [--serve]

AgentKind a debate in the terminal. The models replay a script. The tools run against a prepared environment.

  --scenario <name>  ${SHIPPED_SCENARIOS.join(", ")} (default: memory_leak)
  --serve            start the run in the web page and keep serving until Ctrl-C

Exit code: that of debate. The demo deletes all its files, also after Ctrl-C.
`;

const MAIN = new URL("../../debate/main.ts", import.meta.url).pathname;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const satisfies readonly Deno.Signal[];

async function main(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      scenario: { type: "string", default: "memory_leak" },
      serve: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    say(USAGE);
    return 0;
  }
  const scenario = SHIPPED_SCENARIOS.find((name) => name === values.scenario);
  if (scenario === undefined) {
    throw new Error(
      `cannot play scenario "${values.scenario}": choose one of ${SHIPPED_SCENARIOS.join(", ")}`,
    );
  }
  const dir = await Deno.makeTempDir({ prefix: "debate-demo-" });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => Deno.remove(dir, { recursive: true }));
  await Deno.mkdir(`${dir}/world`);
  const world = resources.use(await startScenario(scenario, `${dir}/world`));
  await Deno.writeTextFile(`${dir}/incident.md`, world.incident);
  const env = environmentFor(scenario, world, dir);
  if (values.serve) {
    const port = env["WEB_PORT"] ?? "8000";
    const server = debate(["serve", "--port", port], { ...env, APPROVAL_TIMEOUT_SECONDS: "3600" }, dir);
    const runId = await Promise.race([startRun(`http://127.0.0.1:${port}`, world), server]);
    if (typeof runId === "string") {
      say(
        `\nThe run is at http://127.0.0.1:${port}/#/runs/${runId}\nSome tools wait for your approval on this page.\n`,
      );
    }
    return await server;
  }
  const code = await debate(["run", titleOf(world), "--file", "incident.md"], env, dir);
  if (code === 0) {
    say(`\nTo see this run in a browser: deno task debate:demo --serve --scenario ${scenario}\n`);
  }
  return code;
}

function environmentFor(scenario: string, world: ScenarioWorld, dir: string): Record<string, string> {
  const model = `replay/${scenario}`;
  const inherited = ["PATH", "DENO_DIR", "TERM", "NO_COLOR", "WEB_PORT"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  // Deno's caches stay in the real home directory. All files of the debate are in the temporary directory.
  const home = Deno.env.get("HOME");
  return {
    ...Object.fromEntries(inherited),
    ...(home !== undefined && { HOME: home }),
    XDG_DATA_HOME: `${dir}/data`,
    XDG_CONFIG_HOME: `${dir}/config`,
    ...world.settings,
    DIAGNOSTIC_MODEL: model,
    SKEPTIC_MODEL: model,
    MODERATOR_MODEL: model,
  };
}

/** Runs the debate program in the foreground. */
async function debate(args: readonly string[], env: Record<string, string>, cwd: string): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", "--cached-only", "-P=run", MAIN, ...args],
    env,
    clearEnv: true,
    cwd,
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  }).spawn();
  // A terminal sends Ctrl-C to the child too, but no other signal. A second SIGINT would kill the child.
  const handlers = SIGNALS.map((signal) => ({
    signal,
    handle: () => signal === "SIGINT" && Deno.stdin.isTerminal() ? undefined : child.kill(signal),
  }));
  for (const { signal, handle } of handlers) Deno.addSignalListener(signal, handle);
  const { code } = await child.status;
  for (const { signal, handle } of handlers) Deno.removeSignalListener(signal, handle);
  return code;
}

function titleOf({ incident }: ScenarioWorld): string {
  return /^# (.+)$/m.exec(incident)?.[1] ?? "";
}

const MAX_ATTEMPTS = 100;

/** Starts the run like the form of the page, when the server answers. Returns the ID of the run. */
async function startRun(url: string, world: ScenarioWorld): Promise<string | undefined> {
  const form = new FormData();
  form.set("topic", titleOf(world));
  form.set("incident_file", new File([world.incident], "incident.md"));
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const response = await fetch(`${url}/api/runs`, { method: "POST", body: form }).catch(() => undefined);
    if (response?.ok) {
      const { run_id } = await response.json();
      return typeof run_id === "string" && /^[0-9a-f]{32}$/.test(run_id) ? run_id : undefined;
    }
    await response?.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return undefined;
}

function say(text: string): void {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}

if (import.meta.main) {
  try {
    Deno.exitCode = await main(Deno.args);
  } catch (error) {
    Deno.stderr.writeSync(new TextEncoder().encode(`${errorText(error)}\n`));
    Deno.exitCode = 2;
  }
  Deno.exit();
}
