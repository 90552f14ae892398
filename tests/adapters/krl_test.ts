import assert from "node:assert/strict";
import { encodeKrl, type Krl, SerialSet } from "../../shared/ssh/wire_format.ts";
import { createTestCa } from "../ssh_target/certificates.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { mustOrMayUseSshKeygen } from "../stage/ssh_keygen.ts";
import { allowedSignersLine, createEnvelopeKey } from "@gateway/shared/envelope";
import { armorSshsig, signSshsig } from "@gateway/shared/ssh";
import { isMissing } from "../stage/is_missing.ts";
import { type Answers, KEY, listOf, type Pulled, PullerHost } from "./krl_puller_fixture.ts";
import { createFolder } from "../stage/folder.ts";

const ignore = !mustOrMayUseSshKeygen();
const LARGEST = 2n ** 64n - 1n;
const EMPTY: Krl = {
  version: 9n,
  generatedAt: 1_700_000_000,
  comment: "gateway",
  serials: new SerialSet(),
  keyIds: [],
};

Deno.test({ name: "ssh-keygen -Q finds exactly what encodeKrl() revokes", ignore }, async () => {
  await using dir = await createFolder();
  const ca = createTestCa();
  const certify = async (name: string, serial: bigint, keyId: string) => {
    await Deno.writeTextFile(
      `${dir.path}/${name}`,
      await ca.certify(createHostKey().line, { serial, keyId }),
    );
  };
  await certify("one", 1n, "agent=a host=web01 role=target t=1");
  await certify("largest", LARGEST, "agent=a host=web01 role=target t=2");
  await certify("named", 7n, "agent=ä host=web01 role=target t=3 elev=sudo -n");
  await certify("free", LARGEST - 1n, "agent=a host=web01 role=target t=4");
  const revokedBy = async (krl: Krl) => {
    await Deno.writeFile(`${dir.path}/krl`, encodeKrl(krl));
    const names = ["one", "largest", "named", "free"];
    const results = await Promise.all(names.map((name) => query(`${dir.path}/krl`, `${dir.path}/${name}`)));
    return names.filter((_, index) => results[index]);
  };
  assert.deepEqual(await revokedBy(EMPTY), []);
  assert.deepEqual(await revokedBy({ ...EMPTY, serials: SerialSet.of([LARGEST, 1n]) }), ["one", "largest"]);
  const keyIds = ["agent=ä host=web01 role=target t=3 elev=sudo -n"];
  assert.deepEqual(await revokedBy({ ...EMPTY, serials: SerialSet.of([1n]), keyIds }), ["one", "named"]);
  const many = Array.from({ length: 100_000 }, (_, index) => BigInt(index) * 2n + 8n);
  assert.deepEqual(await revokedBy({ ...EMPTY, serials: SerialSet.of([...many, LARGEST]) }), ["largest"]);
  const shown = await keygen(["-Q", "-l", "-f", `${dir.path}/krl`]);
  assert.match(shown.text, /^# KRL version 9$/m);
  assert.match(shown.text, /^# Generated at 20231114T\d{6}$/m);
  assert.match(shown.text, /^# Comment: gateway$/m);
});

async function query(list: string, certificate: string): Promise<boolean> {
  const { code, text } = await keygen(["-Q", "-f", list, certificate]);
  assert.match(text, /: (ok|REVOKED)$/m);
  assert.equal(code, text.includes("REVOKED") ? 1 : 0);
  return code === 1;
}

async function keygen(args: readonly string[]): Promise<{ readonly code: number; readonly text: string }> {
  const { code, stdout, stderr } = await new Deno.Command("ssh-keygen", {
    args: [...args],
    env: { TZ: "UTC" },
  }).output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

const ignorePuller = ["curl", "ssh-keygen", "setsid"].some((program) =>
  isMissing(program, [`/usr/bin/${program}`])
);
const SHELLS = {
  sh: { shell: [], ignore: ignorePuller },
  bash: { shell: ["bash"], ignore: ignorePuller || isMissing("bash", ["/bin/bash", "/usr/bin/bash"]) },
  "busybox sh": {
    shell: ["busybox", "sh"],
    ignore: ignorePuller || isMissing("busybox", ["/bin/busybox", "/usr/bin/busybox"]),
  },
};
const FOREIGN = createEnvelopeKey(new Uint8Array(32).fill(6));
const bytes = (text: string) => new TextEncoder().encode(text);

for (const [name, { shell, ignore }] of Object.entries(SHELLS)) {
  Deno.test({
    name: `${name}: installs a newer list and reports its version with the next request`,
    ignore,
  }, async () => {
    await using host = await PullerHost.create();
    assert.deepEqual(await host.pull(shell), { code: 0, out: "gateway-krl: installed version 1\n", err: "" });
    assert.deepEqual(host.installed(), host.answers.list.bytes);
    assert.deepEqual(await host.pull(shell), { code: 0, out: "", err: "" }, "no news");
    host.answers.list = listOf(1_700_000_000_123);
    assert.equal((await host.pull(shell)).out, "gateway-krl: installed version 1700000000123\n");
    assert.deepEqual(host.asked, [
      "/v1/krl?after=0",
      "/v1/krl.sig?version=1",
      "/v1/krl?after=1",
      "/v1/krl?after=1",
      "/v1/krl.sig?version=1700000000123",
    ]);
    assert.equal((Deno.statSync(host.list).mode ?? 0) & 0o777, 0o644);
  });
}

Deno.test(
  "during a change of the signer's key, lists of both keys are accepted",
  { ignore: ignorePuller },
  async () => {
    await using host = await PullerHost.create();
    await host.pull();
    await Deno.writeTextFile(host.signers, `${allowedSignersLine(FOREIGN, ["gateway-krl-v1"])}\n`, {
      append: true,
    });
    for (const [version, key] of [[2, FOREIGN], [3, KEY], [4, FOREIGN]] as const) {
      Object.assign(host.answers, { list: listOf(version), key });
      assert.equal((await host.pull()).code, 0, `version ${version}`);
    }
  },
);

const newer = listOf(9);
const NOT_SIGNED = /the signature is not from a key in/;
const OF_ANOTHER_USE = armorSshsig(signSshsig(KEY.ssh, "gateway-sealed-exec-v2", newer.bytes));

Deno.test.each<[name: string, wrong: Partial<Answers>, err: RegExp]>([
  ["an older version", { list: listOf(3) }, /cannot install version 3: version 5 is installed/],
  [
    "another list of the same version",
    { status: 200, body: listOf(5).bytes },
    /cannot install version 5: version 5 is installed/,
  ],
  ["an empty list", { body: bytes("") }, /cannot install the list: it is empty/],
  ["garbage", { body: bytes("x".repeat(500)) }, /cannot install the list: ssh-keygen cannot read it/],
  ["a truncated list", { body: newer.bytes.slice(0, -3) }, /ssh-keygen cannot read it/],
  [
    "a list of keys in text, which sshd reads too",
    { body: bytes("# KRL version 9\nserial: 1\n") },
    /ssh-keygen cannot read it|the signature is not from a key/,
  ],
  ["a list that was changed", { body: listOf(10).bytes }, NOT_SIGNED],
  ["bytes after the list", { body: new Uint8Array([...newer.bytes, 0]) }, /cannot install /],
  ["the signature of another key: a wrong signer", { key: FOREIGN }, NOT_SIGNED],
  ["a signature for another namespace", { signature: OF_ANOTHER_USE }, NOT_SIGNED],
  ["no signature", { signature: "" }, NOT_SIGNED],
  ["a signer that fails", { status: 500 }, /the signer answered 500/],
  ["a signer that sends elsewhere", { status: 302 }, /the signer answered 302/],
])("the puller rejects %s and keeps its list", { ignore: ignorePuller }, async (_name, wrong, err) => {
  await using host = await PullerHost.create();
  host.answers.list = listOf(5);
  assert.equal((await host.pull()).code, 0);
  const before = host.installed();
  Object.assign(host.answers, { list: newer }, wrong);
  const pulled: Pulled = await host.pull();
  assert.match(pulled.err, err);
  assert.equal(pulled.code, 1);
  assert.deepEqual(host.installed(), before);
});

Deno.test({
  name: "the puller replaces a broken list, ignores the environment and requires its settings",
  ignore: ignorePuller,
}, async () => {
  await using host = await PullerHost.create();
  await Deno.writeTextFile(host.list, "");
  const hostile = { https_proxy: "http://127.0.0.1:1", CURL_HOME: host.state, TMPDIR: "/nowhere" };
  await Deno.writeTextFile(`${host.state}/.curlrc`, "insecure\nurl = https://127.0.0.1:1\n");
  assert.equal((await host.pull([], hostile)).code, 0, "an empty list is replaced");
  assert.deepEqual(host.installed(), host.answers.list.bytes);
  assert.equal((await host.pull([], { GATEWAY_KRL_SIGNER: "" })).code, 2);
  const elsewhere = await host.pull([], { GATEWAY_KRL_SIGNER: "http://127.0.0.1:1" });
  assert.match(elsewhere.err, /cannot reach the signer/);
  await Deno.remove(host.signers);
  host.answers.list = newer;
  assert.match((await host.pull()).err, /the signature is not from/);
});

Deno.test(
  "a full disk during the write leaves the old list in place",
  { ignore: ignorePuller },
  async () => {
    await using host = await PullerHost.create();
    await host.pull();
    const before = host.installed();
    host.answers.list = newer;
    // Writes of the puller and its children fail after 512 bytes, as on a full disk.
    host.answers.body = new Uint8Array(4096);
    const pulled = await host.pull(["sh", "-c", 'ulimit -f 1; exec sh "$@"', "sh"]);
    assert.equal(pulled.code, 1, pulled.err);
    assert.deepEqual(host.installed(), before);
  },
);

Deno.test(
  "after 100 random kill -9, the installed list is the complete old or new one",
  { ignore: ignorePuller },
  async () => {
    await using host = await PullerHost.create();
    host.answers.list = listOf(1);
    await host.pull();
    let installed = 1;
    let kills = 0;
    // The window follows the machine's speed: about half of the pulls end before their kill.
    let windowMs = 50;
    for (let round = 2; kills < 100; round++) {
      assert.ok(round < 1000, `${kills} kills in ${round} pulls`);
      host.answers.list = listOf(round);
      const process = host.command(["setsid"]).spawn();
      await new Promise((resolve) => setTimeout(resolve, Math.random() * windowMs));
      try {
        Deno.kill(-process.pid, "SIGKILL");
      } catch {
        // The puller has ended.
      }
      const { signal, success } = await process.output();
      const killed = signal === "SIGKILL";
      assert.ok(killed || success, `round ${round} ended by itself and failed`);
      if (killed) kills += 1;
      windowMs *= killed ? 1.2 : 0.8;
      const now = [installed, round].find((version) => equal(host.installed(), listOf(version).bytes));
      assert.ok(now !== undefined, `round ${round}: neither the old list nor the new one`);
      installed = now;
    }
    host.answers.list = listOf(2000);
    assert.equal((await host.pull()).code, 0, "what a killed one left behind is in nobody's way");
  },
);

Deno.test(
  "a list with a version in the future is replaced by the commands of the guide",
  { ignore: ignorePuller },
  async () => {
    await using host = await PullerHost.create();
    host.answers.list = listOf(9_000_000_000_000);
    assert.equal((await host.pull()).code, 0);
    host.answers.list = listOf(1_700_000_000_000);
    assert.match(
      (await host.pull()).err,
      /cannot install version 1700000000000: version 9000000000000 is installed/,
    );
    const guide = await Deno.readTextFile(new URL("../../docs/guides/revocation-lists.md", import.meta.url));
    const [commands = ""] = guide.match(/(?<=```sh\n)\. [^`]+(?=```)/) ?? [];
    const here = commands
      .replaceAll("/etc/gateway/krl", host.conf)
      .replaceAll("/var/lib/gateway-krl", host.state)
      .replace(/gateway-krl(?= --once)/, host.script);
    const { code, stderr } = await new Deno.Command("sh", {
      args: ["-c", here],
      env: { GATEWAY_KRL_CONF: host.conf },
      stdout: "null",
      stderr: "piped",
    }).output();
    assert.equal(code, 0, `${here}\n${new TextDecoder().decode(stderr)}`);
    assert.deepEqual(host.installed(), host.answers.list.bytes);
    host.answers.list = listOf(1_700_000_000_001);
    assert.equal((await host.pull()).code, 0, "the puller goes on from it");
  },
);

function equal(left: Uint8Array | undefined, right: Uint8Array): boolean {
  return left !== undefined && left.length === right.length &&
    left.every((byte, index) => byte === right[index]);
}
