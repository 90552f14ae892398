/**
 * Runs each command of the tutorial and the README unchanged, on a Debian without our software and with a separate host.
 * `deno task test:packages`
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { followGuide, readGuide } from "./guides.ts";
import { type Machine, mustRun, RootFilesystem } from "./machine.ts";
import { OLD, release } from "./two_releases.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SOURCES = "/root/sources";
const DENO_DIR = "/root/deno_dir";

/** Ports of the monitors. */
const MONITORS: Readonly<Record<string, number>> = { signer: 9160, "control-plane": 9170, broker: 9180 };

/** Prerequisites of the guides: a host at their addresses that accepts root over SSH. */
const HOST = `set -e
ip link set lo up
for address in 10.0.0.1 10.0.0.5 10.0.0.6; do
  ip address add $address/32 dev lo
  echo "$address $(cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub)"
done >/root/known
useradd --create-home --shell=/bin/bash deploy
mkdir -p -m 700 /root/.ssh && mv /root/known /root/.ssh/known_hosts
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys`;

/** Copies the file system of a Debian that does not run. */
async function copyOf(base: string, path: string): Promise<RootFilesystem> {
  await mustRun("cp", "-a", base, path);
  await mustRun("sh", "-c", `rm -f ${path}/etc/ssh/ssh_host_* && ssh-keygen -q -A -f ${path}`);
  return new RootFilesystem(path);
}

/** Replaces the example key of a guide by the host's key. */
async function keyFiller(machine: Machine): Promise<(text: string) => string> {
  const key = (await machine.must("cat", "/etc/ssh/ssh_host_ed25519_key.pub")).trim();
  return (text) => text.replaceAll("ssh-ed25519 AAAA…", key);
}

async function ready(machine: Machine, monitor: number): Promise<void> {
  const what = `the service at ${monitor}`;
  const question = ["curl", "-sf", `127.0.0.1:${monitor}/readyz`] as const;
  await poll(async () => (await machine.run(...question)).code === 0, { what, intervalMs: 200 });
}

/** @param root a Debian with the release in `/root/dist` */
async function followTutorial(root: RootFilesystem): Promise<void> {
  await using machine = await root.boot();
  await machine.must("sh", "-c", HOST);
  const printed = new Map<string, string>();
  const markdown = await Deno.readTextFile(`${ROOT}docs/tutorial.md`);
  const withKey = await keyFiller(machine);
  let id = "";
  const notRun = await followGuide(machine, readGuide(markdown), {
    fill: (text) => withKey(text).replace(" allow ID ", ` allow ${id} `),
    // Only the request that waits for an approval keeps running.
    started: () =>
      poll(async () => {
        const list = await machine.must("broker-ctl", "approval", "list", "--status", "pending", "--json");
        id = /"id": ?"([^"]+)"/.exec(list)?.[1] ?? "";
        return id !== "";
      }, { what: "a pending request" }),
    after: async (text, output) => {
      printed.set(text, output);
      if (text.includes("systemctl enable")) {
        for (const monitor of Object.values(MONITORS)) await ready(machine, monitor);
      }
    },
  });
  assert.equal(notRun, 0);
  const of = (part: string) => [...printed].find(([text]) => text.includes(part))?.[1] ?? "";
  assert.match(of('"uptime"'), /load average.*"exit_code":0/);
  assert.match(of("/etc/shadow"), /"status":403.*allowlist:no-match/);
  assert.match(of("approval allow"), /approved/);
  assert.match(of("audit show"), /issued.*uptime[^]*denied.*\/etc\/shadow[^]*issued.*\bid\b/);
}

/** @param root a Debian without our software, into which the sources and packages of this machine are mounted */
async function followReadme(root: RootFilesystem): Promise<void> {
  await using machine = await root.boot(undefined, [
    `--bind-ro=${Deno.execPath()}:/usr/bin/deno`,
    `--overlay=${ROOT.slice(0, -1)}::${SOURCES}`,
    `--overlay=${await denoDir()}::${DENO_DIR}`,
  ]);
  await machine.must("sh", "-c", HOST);
  const inSources = (text: string) =>
    machine.must("env", "HOME=/root", `DENO_DIR=${DENO_DIR}`, "sh", "-ec", `cd ${SOURCES}; ${text}`);
  const withKey = await keyFiller(machine);
  const ctl = "deno task broker-ctl --client-config ~/gateway/broker-ctl.json";
  const markdown = await Deno.readTextFile(`${ROOT}README.md`);
  const printed = new Map<string, string>();
  await followGuide(machine, readGuide(markdown), {
    folder: `${SOURCES}; export DENO_DIR=${DENO_DIR}`,
    fill: async (text) => {
      if (text.includes("age1…")) {
        await machine.must("age-keygen", "-o", "/root/identity.txt");
        const recipient = await machine.must("age-keygen", "-y", "/root/identity.txt");
        return text.replace("age1…", recipient.trim());
      }
      if (!text.includes("approval allow ID")) return withKey(text);
      // Creates the pending request: adds a pattern, as the README describes, and sends a matching command.
      await inSources(
        `${ctl} host add --config ~/gateway/signer.json --name web01 --force --policy-mode allowlist --allow '^uptime$,^id$' ` +
          "--require-approval '^id$' --reload",
      );
      const ask =
        `curl -s --cert agent.crt --key agent.key --cacert mtls_ca.crt -H 'Content-Type: application/json' ` +
        `-d '{"host":"web01","command":"id"}' https://127.0.0.1:8443/v1/ssh_run`;
      await inSources(`cd ~/gateway/pki; (setsid ${ask} </dev/null >/root/asked 2>&1 &)`);
      let id: string | undefined;
      await poll(async () => {
        id = /"id": ?"([^"]+)"/.exec(await inSources(`${ctl} approval list --status pending --json`))?.[1];
        return id !== undefined;
      }, { what: "a pending request" });
      return text.replace(" ID ", ` ${id} `);
    },
    started: async (line) => await ready(machine, MONITORS[/start\.sh (\S+)/.exec(line)?.[1] ?? ""] ?? 0),
    after: async (text, output) => {
      printed.set(text, output);
      if (text.includes("broker-ctl init")) {
        const enrol = /^ *(deno task broker-ctl host enroll .*)$/m.exec(output)?.[1];
        assert.ok(enrol !== undefined, output);
        await inSources(enrol);
      }
    },
  });
  const of = (part: string) => [...printed].find(([text]) => text.includes(part))?.[1] ?? "";
  assert.match(of("approval allow"), /approved/);
  assert.match(await machine.must("cat", "/root/asked"), /uid=\d+\(deploy\)/);
  assert.match(
    of("https://127.0.0.1:8443/v1/ssh_run"),
    /load average/,
    "the agent's uptime on a sealed host",
  );
  await machine.must("test", "-s", "/root/backup/monday/manifest.json");
}

/** Returns the package cache of this machine's Deno. */
async function denoDir(): Promise<string> {
  return JSON.parse(await mustRun(Deno.execPath(), "info", "--json")).denoDir;
}

Deno.test("all commands of the tutorial and the README succeed unchanged", async (t) => {
  const work = await Deno.makeTempDir({ prefix: "followed-" });
  try {
    const base = join(work, "base");
    const dist = join(work, "dist");
    const more = ["openssh-server", "curl", "iproute2", "age"];
    await Promise.all([release(OLD, dist), RootFilesystem.create(base, more)]);
    await t.step("the README", async () => await followReadme(await copyOf(base, join(work, "readme"))));
    await t.step("the tutorial", async () => {
      const root = await copyOf(base, join(work, "tutorial"));
      await mustRun("cp", "-a", dist, join(root.path, "root/dist"));
      await followTutorial(root);
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});
