/** The compose file of the debate, as its operator and a monitoring system use it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { mustRun, runProgram } from "./machine.ts";

const SOURCE = new URL("../../deploy/debate", import.meta.url).pathname;
const SCENARIO = "replay/memory_leak";
const SETTINGS = {
  ...{ WEB_USERNAME: "ann", WEB_PASSWORD: "a-long-password", ALERT_SECRET: "a-secret-of-alertmanager" },
  ...{ DIAGNOSTIC_MODEL: SCENARIO, SKEPTIC_MODEL: SCENARIO, MODERATOR_MODEL: SCENARIO },
};
const ALERT = {
  ...{ version: "4", groupKey: "test", status: "firing" },
  alerts: [{ annotations: { Repository: "/data/none", Files: "/data/none", Service: "http://127.0.0.1:9" } }],
};

/** An alert becomes a run, which survives a restart of the server with the same address. Needs the image `nginx`. */
export async function tryDebate(folder: string): Promise<void> {
  await mustRun("cp", "-a", SOURCE, folder);
  const lines = Object.entries(SETTINGS).map(([name, value]) => `${name}=${value}\n`);
  await Deno.writeTextFile(join(folder, "debate.env"), lines.join(""));
  const proxy = 'image: localhost/nginx, entrypoint: ["nginx", "-g", "daemon off;"]';
  const free = 'ports: !override ["127.0.0.1::8000"]';
  await Deno.writeTextFile(join(folder, "test.yaml"), `services:\n  proxy: { ${proxy}, ${free} }\n`);
  const compose = (...args: readonly string[]) =>
    mustRun(
      "podman-compose",
      ...["compose", "test"].map((name) => `--file=${join(folder, name)}.yaml`),
      ...args,
    );
  try {
    await compose("up", "--detach");
    const base = `http://${(await mustRun("podman", "port", "debate_proxy_1", "8000")).trim()}`;
    const curl = async (path: string, ...options: readonly string[]) => {
      const common = ["-s", "-m", "5", "-w", " %{http_code}", `${base}${path}`];
      return (await runProgram("curl", ...common, ...options)).stdout;
    };
    const signIn = ["-u", `${SETTINGS.WEB_USERNAME}:${SETTINGS.WEB_PASSWORD}`];
    await poll(async () => / 200$/.test(await curl("/", ...signIn)), { what: "the page", intervalMs: 500 });
    assert.match(await curl("/"), / 401$/);
    const headers = [`X-Alert-Secret: ${SETTINGS.ALERT_SECRET}`, "Content-Type: application/json"];
    const alert = [...headers.flatMap((header) => ["-H", header]), "-d", JSON.stringify(ALERT)];
    assert.match(await curl("/api/alerts", ...alert), /"status":"accepted".* 202$/);
    const isStored = async () => /"status":"completed".* 200$/.test(await curl("/api/runs", ...signIn));
    await poll(isStored, { what: "the run of the alert", intervalMs: 500 });
    const other = [
      "run",
      "--detach",
      "--rm",
      "--name=other",
      "--network=debate_default",
      "--entrypoint=nginx",
    ];
    await mustRun("podman", "stop", "--time=20", "debate_debate_1");
    await mustRun("podman", ...other, "localhost/nginx", "-g", "daemon off;");
    await mustRun("podman", "start", "debate_debate_1");
    await poll(isStored, { what: "the same run after a restart", intervalMs: 500, timeoutMs: 15_000 });
  } finally {
    await runProgram("podman", "rm", "--force", "other");
    await compose("down", "--volumes");
  }
}
