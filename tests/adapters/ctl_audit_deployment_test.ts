/** The logs of several instances: `audit verify --set FOLDER`, `audit show --set FOLDER`. */
import assert from "node:assert/strict";
import type { AuditEntry } from "@gateway/shared/audit";
import { openFileAuditLog } from "../../shared/audit/log.ts";
import { NOW } from "./audit_fixture.ts";
import { createFolder, run } from "./ctl_fixture.ts";

const SEEDS = { "signer-1": 1, "signer-2": 2, "cp-1": 3 } as const;
type Instance = keyof typeof SEEDS;

/** Two signers and a control plane with a log each. All serials are consistent. */
class Deployment implements AsyncDisposable {
  readonly folder: string;
  readonly #dispose: () => PromiseLike<void>;
  #now = NOW;

  private constructor(folder: string, dispose: () => PromiseLike<void>) {
    this.folder = folder;
    this.#dispose = dispose;
  }

  static async create(): Promise<Deployment> {
    const folder = await createFolder();
    const deployment = new Deployment(folder.path, () => folder[Symbol.asyncDispose]());
    let keys = "# who has to have a log\n\n";
    for (const [instance, seed] of Object.entries(SEEDS)) {
      await Deno.mkdir(`${folder.path}/logs/${instance}`, { recursive: true });
      await Deno.writeFile(`${folder.path}/${instance}.seed`, new Uint8Array(32).fill(seed));
      const service = instance.startsWith("signer") ? "signer" : "control-plane";
      const flags = ["--service", service, "--instance", instance, "--key", `${instance}.seed`];
      keys += (await run(folder.path, "audit", "public-key", ...flags)).out;
    }
    await deployment.put("keys", keys);
    await deployment.write("signer-1", { outcome: "issued", serial: 11n, caller: "a" });
    await deployment.write("signer-2", { outcome: "issued", serial: 2n ** 64n - 1n, caller: "b" });
    await deployment.write("cp-1", { outcome: "forwarded", serial: 11n });
    await deployment.write("cp-1", { outcome: "forwarded", serial: 2n ** 64n - 1n });
    await deployment.write("signer-1", { outcome: "denied", command: ',"serial":99,"outcome":"issued",' });
    return deployment;
  }

  log(instance: string): string {
    return `${this.folder}/logs/${instance}/audit.log`;
  }

  async write(instance: Instance, entry: AuditEntry): Promise<void> {
    const log = await openFileAuditLog({
      path: this.log(instance),
      seed: new Uint8Array(32).fill(SEEDS[instance]),
      clock: { now: () => this.#now += 1000, sleep: () => Promise.resolve() },
      redact: (text) => text,
    });
    await log.append(entry);
    await log.close();
  }

  async put(name: string, text: string): Promise<void> {
    await Deno.writeTextFile(`${this.folder}/${name}`, text);
  }

  async edit(path: string, edit: (text: string) => string): Promise<void> {
    await Deno.writeTextFile(path, edit(await Deno.readTextFile(path)));
  }

  verify(...flags: readonly string[]) {
    return run(this.folder, "audit", "verify", "--set", "logs", "--keys", "keys", ...flags);
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.#dispose();
  }
}

Deno.test("audit verify --set FOLDER passes for the logs of a complete deployment", async () => {
  await using deployment = await Deployment.create();
  const { out, exit } = await deployment.verify("--all", "--since", "heads");
  assert.equal(exit, 0, out);
  assert.match(out, /^signer-2: OK: 1 entries, chain intact across all rotated segments, all signatures/m);
  assert.match(out, /^OK: 3 logs, 2 serials, each in the log of one signer$/m);
  const again = await deployment.verify("--since", "heads", "--json");
  assert.equal(again.exit, 0);
  const { ok, logs, instances, serials } = JSON.parse(again.out);
  assert.equal(ok, true);
  assert.deepEqual(logs.map(({ instance }: { instance: string }) => instance), [
    "cp-1",
    "signer-1",
    "signer-2",
  ]);
  assert.deepEqual([instances, serials.problem_count], [[], 0]);
});

Deno.test.each<
  { name: string; harm: (deployment: Deployment) => Promise<void>; says: RegExp; kind?: string }
>([
  {
    name: "a removed record has a serial that a control plane logged",
    harm: (it) => it.edit(it.log("signer-2"), () => "").then(() => it.write("signer-2", { outcome: "x" })),
    says: /serial 18446744073709551615 is in the log of cp-1, but in no signer's/,
  },
  {
    name: "a record was removed",
    harm: (it) => it.edit(it.log("cp-1"), (text) => text.replace(/^.*\n/, "")),
    says: /cp-1: ERROR: .*audit\.log:1: prev_hash mismatch: not the beginning of a log/,
  },
  {
    name: "one log was copied over another",
    harm: (it) => Deno.copyFile(it.log("signer-1"), it.log("signer-2")),
    says: /signer-2: ERROR: every record of signer-2\/audit\.log fails: probably the wrong key/,
  },
  {
    name: "one log was copied to a new name",
    async harm(it) {
      await Deno.mkdir(`${it.folder}/logs/signer-3`);
      await Deno.copyFile(it.log("signer-1"), it.log("signer-3"));
    },
    says: /ERROR: signer-3: it has a log, but no key in keys/,
  },
  {
    name: "one log is empty",
    harm: (it) => it.edit(it.log("signer-2"), () => ""),
    says: /ERROR: signer-2: its log is empty/,
  },
  {
    name: "one log is missing",
    harm: (it) => Deno.remove(it.log("signer-2")),
    says: /ERROR: signer-2: keys lists it, but logs\/signer-2\/audit\.log does not exist/,
  },
  {
    name: "two signers issued the same serial",
    harm: (it) => it.write("signer-2", { outcome: "issued", serial: 11n }),
    says: /ERROR: serial 11 was issued more than once: signer-1, signer-2/,
  },
  {
    name: "one signer issued the same serial twice",
    harm: (it) => it.write("signer-1", { outcome: "issued", serial: 11n }),
    says: /ERROR: serial 11 was issued more than once: signer-1$/m,
  },
])("audit verify --set FOLDER fails if $name", async ({ harm, says }) => {
  await using deployment = await Deployment.create();
  await harm(deployment);
  const { out, exit } = await deployment.verify("--all");
  assert.match(out, says);
  assert.match(out, /^FAIL: the logs of this deployment are incomplete or damaged$/m);
  assert.equal(exit, 1);
  const json = await deployment.verify("--all", "--json");
  assert.deepEqual([JSON.parse(json.out).ok, json.exit], [false, 1]);
});

Deno.test("audit verify --set FOLDER --since detects removed records, and a log removed along with its key", async () => {
  await using deployment = await Deployment.create();
  await deployment.write("signer-1", { outcome: "denied" });
  assert.equal((await deployment.verify("--since", "heads")).exit, 0);
  await deployment.edit(deployment.log("signer-1"), (text) => text.replace(/.*\n$/, ""));
  const cut = await deployment.verify("--since", "heads");
  assert.match(cut.out, /signer-1: ERROR: signer-1\/audit\.log no longer contains its head/);
  assert.equal(cut.exit, 1);
  await using other = await Deployment.create();
  assert.equal((await other.verify("--since", "heads")).exit, 0);
  await other.edit(`${other.folder}/keys`, (text) => text.replace(/^control-plane .*\n/m, ""));
  await Deno.remove(`${other.folder}/logs/cp-1`, { recursive: true });
  const gone = await other.verify("--since", "heads");
  assert.match(gone.out, /ERROR: remembered log cp-1\/audit\.log was not checked: it is missing/);
  assert.equal(gone.exit, 1);
});

Deno.test.each<{ name: string; harm: (deployment: Deployment) => Promise<void>; says: RegExp }>([
  {
    name: "a symlink to the directory of another instance",
    async harm(it) {
      await Deno.remove(`${it.folder}/logs/signer-2`, { recursive: true });
      await Deno.symlink("signer-1", `${it.folder}/logs/signer-2`);
    },
    says: /signer-2": it is a symbolic link/,
  },
  {
    name: "a symlink to the log of another instance",
    async harm(it) {
      await Deno.remove(it.log("signer-2"));
      await Deno.symlink("../signer-1/audit.log", it.log("signer-2"));
    },
    says: /audit\.log": it is a symbolic link/,
  },
  {
    name: "the same key for two instances",
    harm: (it) =>
      it.edit(`${it.folder}/keys`, (text) => text.replace(/(signer-1 )(.*)\n(.*signer-2 ).*/, "$1$2\n$3$2")),
    says: /line 4: signer-2 and signer-1 have the same key/,
  },
  {
    name: "two keys for one instance",
    harm: (it) => it.edit(`${it.folder}/keys`, (text) => text.replace("signer-2", "Signer-1")),
    says: /line 4: Signer-1 has a second key/,
  },
  {
    name: "an instance name that leaves the directory",
    harm: (it) => it.edit(`${it.folder}/keys`, (text) => text.replace("signer-2", "..")),
    says: /line 4: expected the output of broker-ctl audit public-key/,
  },
  {
    name: "no signer",
    harm: (it) => it.edit(`${it.folder}/keys`, (text) => text.replaceAll(/^signer .*\n/gm, "")),
    says: /it contains no signer/,
  },
])("audit verify --set FOLDER rejects $name", async ({ harm, says }) => {
  await using deployment = await Deployment.create();
  await harm(deployment);
  const { err, out, exit } = await deployment.verify();
  assert.match(err, says);
  assert.deepEqual([out, exit], ["", 1]);
});

Deno.test("audit show --set FOLDER lists all instances' records by time, with instance name", async () => {
  await using deployment = await Deployment.create();
  const show = (...flags: readonly string[]) =>
    run(deployment.folder, "audit", "show", "--set", "logs", ...flags);
  const lines = (await show("--json")).out.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(lines.map(({ instance }) => instance), "signer-1 signer-2 cp-1 cp-1 signer-1".split(" "));
  const text = await Deno.readTextFile(deployment.log("signer-2"));
  assert.ok((await show("--json")).out.includes(`"record":${text.trim()}}`), "a record as it was signed");
  const { out } = await show("--serial", "11");
  assert.match(out, /^INSTANCE +TIME .*\nsigner-1 +2026\S+ .*issued.*\ncp-1 +2026\S+ .*forwarded/);
  assert.match((await show("--log", "x")).err, /Cannot use --log with --set/);
});
