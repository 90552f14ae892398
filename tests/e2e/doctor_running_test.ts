import assert from "node:assert/strict";
import { setValue } from "@gateway/shared/config";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { McpProcess } from "./mcp_process.ts";
import { createSetUp, ENV, START, startSigner } from "./started_signer.ts";

interface Finding {
  readonly level: string;
  readonly check: string;
  readonly fix: string;
}

/** What `doctor --live` says of processes, itself a process under its own permissions. */
async function findProcesses(...args: string[]): Promise<readonly Finding[]> {
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--no-prompt", "--cached-only", "--no-check", "-P=broker-ctl"],
      ...[`${ROOT}ctl/main.ts`, "doctor", "--json", "--live", ...args],
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder().decode(stdout);
  assert.notEqual(text, "", new TextDecoder().decode(stderr));
  const { findings } = JSON.parse(text) as { readonly findings: readonly Finding[] };
  return findings.filter(({ check }) => /\bprocess/.test(check));
}

/** Processes of other tests can look like a service of any config: a relative path, or a line too long for ps. */
const isCertain = ({ check }: Finding) => !check.includes(" may be the service of this config");

const about = (pid: number) => ({ check }: Finding) => check.startsWith(`process ${pid} of `);

Deno.test("doctor --live says what running services may do that their configs do not call for", async () => {
  await using parent = await createFolder();
  const folder = `${parent.path}/it's "a" \\ $(x) é -A *`;
  await Deno.mkdir(folder, { mode: 0o700 });
  const { monitor } = await createSetUp(folder);
  const [config, mcp] = [`${folder}/signer.json`, `${folder}/mcp.json`];
  assert.deepEqual((await findProcesses("--signer", config)).filter(isCertain), [], "nothing runs");
  const { child, log } = await startSigner(folder, monitor);
  /** What only looks like the signer: all it has is its name. */
  const looksLike = (name: string, ...more: string[]) =>
    new Deno.Command("bash", {
      args: ["-c", 'exec -a "$0" sleep 600 "$@"', name, ...more],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
  const { out } = await run("/", "permissions", "signer", "--config", config);
  const decoys = [
    looksLike(`deno run -A /srv/signer/main.ts --config ${config}`),
    looksLike(`${Deno.execPath()} run ${out.trim()} --inspect /srv/signer/main.ts --config ${config}`),
    looksLike(`deno run --x=/srv/signer/main.ts --config ${config} -A /y/signer/main.ts --config ${config}`),
    looksLike(`deno run -A --v8-flags=${"x".repeat(125_000)}`, "0".repeat(10_000)),
    looksLike(`deno run -A\n/srv/signer/main.ts --config ${folder}/other.json`),
  ];
  try {
    const args = ["mcp", "--config", mcp];
    await using agent = new McpProcess({ program: START, args, env: ENV, cwd: parent.path });
    const wide = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", `${ROOT}broker/main.ts`, "serve-mcp", "--config", mcp],
      stdin: "piped",
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      let found: readonly Finding[] = [];
      const all = [child.pid, agent.pid, wide.pid, ...decoys.slice(0, 4).map(({ pid }) => pid)];
      await poll(async () => {
        found = await findProcesses("--signer", config, "--broker", mcp);
        return all.every((pid) => found.some(about(pid)));
      }, { what: "doctor to see all processes" });
      const level = (pid: number) => found.filter(about(pid)).map((finding) => finding.level).join();
      assert.deepEqual(
        all.map(level),
        ["pass", "pass", "fail", "fail", "fail", "unknown", "unknown,unknown"],
        JSON.stringify(found),
      );
      // That of another config; what is too long is told of for each of both.
      assert.equal(level(decoys.at(-1)!.pid), "");
      assert.match(found.find(about(wide.pid))?.check ?? "", /more than its config calls for: .*--allow-all/);
    } finally {
      await wide.stdin.close();
      await wide.status;
    }
  } finally {
    for (const decoy of decoys) decoy.kill("SIGKILL");
    for (const decoy of decoys) await decoy.status;
    child.kill("SIGTERM");
  }
  assert.equal((await child.status).code, 0, await log);
});

Deno.test("doctor --live says that a service runs with what a config called for before it was changed", async () => {
  await using folder = await createFolder();
  const { monitor } = await createSetUp(folder.path);
  const config = `${folder.path}/signer.json`;
  const { child, log } = await startSigner(folder.path, monitor);
  try {
    // What it may read still, and what it may not read yet.
    await Deno.copyFile(`${folder.path}/pki/denied_callers`, `${folder.path}/pki/denied`);
    const edited = setValue(await Deno.readTextFile(config), ["denied_callers"], `${folder.path}/pki/denied`);
    await Deno.writeTextFile(config, edited);
    const [finding] = (await findProcesses("--signer", config)).filter(about(child.pid));
    assert.equal(finding?.level, "fail");
    assert.match(
      finding?.check ?? "",
      /--allow-read=.*denied_callers; the config was changed since it was sta/,
    );
    assert.match(finding?.fix ?? "", /^restart it; /);
    // The same service by another config: what answers is not of this one.
    const other = `${folder.path}/other.json`;
    await Deno.rename(config, other);
    const [unknown, ...more] = (await findProcesses("--signer", other)).filter(isCertain);
    assert.match(
      unknown?.check ?? "",
      new RegExp(`not found here with this config .*process ${child.pid}\\)`),
    );
    assert.deepEqual([unknown?.level, more], ["unknown", []]);
  } finally {
    child.kill("SIGTERM");
  }
  assert.equal((await child.status).code, 0, await log);
});
