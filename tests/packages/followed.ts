/**
 * Runs each command of the tutorial and the access guides unchanged, on a Debian without our software and with a separate host.
 * `deno task test:packages`
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { ACCESS_GUIDES, followGuide, readGuide } from "./guides.ts";
import { type Machine, mustRun, RootFilesystem } from "./machine.ts";
import { OLD, release } from "./two_releases.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Ports of the monitors of signer, control plane and broker. */
const MONITORS = [9160, 9170, 9180] as const;

/** Prerequisites of the guides: a host at their addresses that accepts root over SSH. */
const HOST = `set -e
ip link set lo up
for address in 10.0.0.1 10.0.0.5 10.0.0.6; do
  ip address add $address/32 dev lo
  echo "$address,web01 $(cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub)"
done >/root/known
echo 10.0.0.5 web01 >>/etc/hosts
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
  const printed: string[] = [];
  const notRun = await followOn(machine, "docs/tutorial.md", printed);
  assert.equal(notRun, 0);
  assert.match(
    printed.join("\n"),
    /load average.*"exit_code":0|"exit_code":0.*load average/,
    "the agent's uptime",
  );
  assert.match(printed.at(-1) ?? "", /uptime/, "the audit record");
  // The host of the guides is another machine, without packages.
  await machine.must("dpkg", "--purge", "gateway-shim");
  for (const path of Object.keys(ACCESS_GUIDES)) await followOn(machine, path);
}

/** Runs the commands of a guide, and appends their outputs. Returns the number of blocks that are not run. */
async function followOn(machine: Machine, path: string, printed: string[] = []): Promise<number> {
  let id: string | undefined;
  const list = ["broker-ctl", "approval", "list", "--status", "pending", "--json"] as const;
  const withKey = await keyFiller(machine);
  return await followGuide(machine, readGuide(await Deno.readTextFile(`${ROOT}${path}`)), {
    after: async (text, output) => {
      printed.push(output);
      if (!/systemctl (?:enable|restart)/.test(text)) return;
      for (const monitor of MONITORS) await ready(machine, monitor);
    },
    fill: (text) => withKey(text).replace(/ allow ID\b/, ` allow ${id}`),
    // Only the request that waits for an approval keeps running.
    started: () =>
      poll(async () => {
        id = /"id": ?"([^"]+)"/.exec(await machine.must(...list))?.[1];
        return id !== undefined;
      }, { what: "a pending request" }),
  });
}

Deno.test("all commands of the tutorial and the access guides succeed unchanged", async (t) => {
  const work = await Deno.makeTempDir({ prefix: "followed-" });
  try {
    const base = join(work, "base");
    const dist = join(work, "dist");
    const more = ["openssh-server", "curl", "iproute2", "age"];
    await Promise.all([release(OLD, dist), RootFilesystem.create(base, more)]);
    await t.step("the tutorial", async () => {
      const root = await copyOf(base, join(work, "tutorial"));
      await mustRun("cp", "-a", dist, join(root.path, "root/dist"));
      await followTutorial(root);
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});
