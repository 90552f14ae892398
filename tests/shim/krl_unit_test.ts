import assert from "node:assert/strict";
import { isMissing } from "../stage/is_missing.ts";
import { FOREIGN_KEY, FORMATS, freshFields, InstalledShim, SIGNER_KEY } from "./installed_shim.ts";
import { EnrolHost, PRINCIPAL } from "./enroll_host.ts";
import { ACCOUNT, mayNotSeal } from "./sealed_host.ts";
import { mayNotMount, TinyDisk } from "../adapters/tiny_disk.ts";
import { SHIMS } from "./shims.ts";
import manifest from "../../shim/deno.json" with { type: "json" };
import { REFUSED_CASES } from "./refusals.ts";
import { createHash } from "node:crypto";
import { allowedSignersLine } from "@gateway/shared/envelope";

const UNIT = new URL("../../shim/gateway-krl.service", import.meta.url);
const ignore = isMissing("systemd-analyze", ["/usr/bin/systemd-analyze"]);

Deno.test("systemd accepts gateway-krl.service and rates its exposure low", { ignore }, async () => {
  const folder = await Deno.makeTempDir({ prefix: "krl-unit-" });
  try {
    const unit = `${folder}/gateway-krl.service`;
    // The started program need not be installed here.
    const text = await Deno.readTextFile(UNIT);
    await Deno.writeTextFile(unit, text.replace("=/usr/local/bin/gateway-krl", "=/bin/true"));
    for (
      const args of [["verify", "--man=no"], ["security", "--offline=true", "--threshold=25", "--no-pager"]]
    ) {
      const { code, stdout, stderr } = await new Deno.Command("systemd-analyze", { args: [...args, unit] })
        .output();
      const said = new TextDecoder().decode(stderr) +
        (args[0] === "verify" ? new TextDecoder().decode(stdout) : "");
      assert.deepEqual({ code, said }, { code: 0, said: "" });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("gateway-shim-v1 runs the bundled verifier next to it and needs no other source files", async () => {
  await using shim = await InstalledShim.create(FORMATS.v1);
  await shim.bundle();
  // The source is not installed, as on a host.
  const launcher = `${shim.folder}/gateway-shim`;
  const text = await Deno.readTextFile(launcher);
  await Deno.writeTextFile(launcher, text.replace(/verifier="\S*main\.ts"/, "verifier=/none/main.ts"));
  const envelope = shim.seal({ command: "echo ran; exit 7" });
  const ran = await shim.run(envelope);
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, "ran\n", ""]);
  const again = await shim.run(envelope);
  assert.deepEqual([again.code, again.stdout], [126, ""]);
  assert.match(again.stderr, /replay/);
  const foreign = await shim.run(shim.seal({}, FOREIGN_KEY));
  assert.deepEqual([foreign.code, foreign.stdout], [126, ""]);
  assert.equal(shim.claims().length, 1);
});

const NEEDS = "(needs root, sshd and overlays)";

Deno.test({
  name: `a host's files are read as sshd reads them, without comments and partial names ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start(
      "TrustedUserCAKeys /etc/ssh/cas\nAuthorizedPrincipalsFile /etc/ssh/who/%u",
    );
    const who = `/etc/ssh/who/${ACCOUNT}`;
    await host.sh(`mkdir -p /etc/ssh/who; printf '# %s\\n${PRINCIPAL}2\\n' '${PRINCIPAL}' >${who}
      { printf '# '; cat /var/k/ours.pub; cat /var/k/other.pub; } >/etc/ssh/cas`);
    const status = async () => (await host.enrol({ mode: "status" })).stdout;
    const ours = (await host.sh("cut -d' ' -f1,2 /var/k/ours.pub")).trim();
    const said = await status();
    assert.deepEqual([said.includes(`ca: ${ours}\n`), /principal: no\n$/.test(said)], [false, true], said);
    assert.equal((await host.enrol()).code, 0);
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), true);
    assert.equal((await status()).includes(`ca: ${ours}\n`), true);

    // sshd stops reading here, so it trusts no key.
    await host.sh("cp /etc/ssh/cas /etc/ssh/cas.good; sed -i '2i no key' /etc/ssh/cas");
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), false);
    const refused = await host.enrol();
    assert.match(refused.stderr, /an earlier line is not a key[^]*all changes were rolled back/);
    await host.sh("mv /etc/ssh/cas.good /etc/ssh/cas");

    // A manual entry in a form that sshd also accepts.
    await host.sh(
      `sed -i 's/^ssh-ed25519 /ssh-ed25519\\t/' /etc/ssh/cas; sed -i 's/^${PRINCIPAL}$/& # ann/' ${who}`,
    );
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), true);
    const { code, stderr } = await host.enrol({ mode: "remove" });
    assert.deepEqual([code, stderr], [0, ""]);
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), false);
    assert.equal(await host.mayLogIn("ours", `${PRINCIPAL}2`), false, "the CA is trusted no more");
    assert.equal(await host.mayLogIn("other", `${PRINCIPAL}2`), true, "what others had it trust stays");
    assert.match(await host.sh("cat /etc/ssh/cas"), /^# ssh-ed25519/);
  },
});

for (const { name, format, shell } of SHIMS) {
  Deno.test({
    name: `${name} rejects an envelope whose use cannot be recorded because the disk is full (needs root)`,
    ignore: mayNotMount,
    async fn() {
      await using disk = await TinyDisk.mount("size=1m,nr_inodes=4");
      await using shim = await InstalledShim.create(format, shell, disk.folder);
      const filler = `${disk.folder}/filler`;
      await Deno.mkdir(filler);
      // The root directory, the store and the filler exist, so one more file fits.
      await Deno.writeTextFile(`${filler}/last`, "");
      const envelope = shim.seal();
      const { code, stdout, stderr } = await shim.run(envelope);
      assert.deepEqual({ code, stdout, stderr }, {
        code: 126,
        stdout: "",
        stderr: `gateway-shim: refused: cannot record the envelope's use in ${shim.store}\n`,
      });
      await Deno.remove(`${filler}/last`);
      assert.equal((await shim.run(envelope)).stdout, "done\n");
    },
  });
}

const LAUNCHER = new URL("../../shim/gateway-shim-v1", import.meta.url).pathname;

Deno.test("gateway-shim-v1 starts the verifier under exactly the permissions of shim/deno.json", async () => {
  const text = await Deno.readTextFile(LAUNCHER);
  const { read, write, env } = manifest.permissions["gateway-shim"];
  const [keys = "", store = ""] = read;
  assert.deepEqual(write, [store]);
  assert.match(text, new RegExp(`^ *keys=${keys}; store=${store}$`, "m"));
  assert.deepEqual(text.match(/"?--allow-[^ ]*/g), [
    '"--allow-read=$keys,$store"',
    '"--allow-write=$store"',
    `--allow-env=${env.allow.join()}`,
  ]);
  assert.doesNotMatch(text, /deno run.* (?:-A|-P)\b/);
});

Deno.test.each([
  { name: "read another file", code: "Deno.readTextFile('/etc/passwd')" },
  { name: "write the keys", code: "Deno.writeTextFile(Deno.args[0], '')" },
  { name: "read another environment variable", code: "(async () => Deno.env.get('DENO_DIR'))()" },
  { name: "start a program", code: "new Deno.Command('/bin/true').output()" },
  { name: "connect", code: "Deno.connect({ hostname: '127.0.0.1', port: 1 })" },
  { name: "load native code", code: "(async () => Deno.dlopen('libc.so.6', {}))()" },
])("the verifier of gateway-shim-v1 cannot $name", async ({ code }) => {
  await using shim = await InstalledShim.create(FORMATS.v1);
  const probe = `${shim.folder}/probe.ts`;
  await Deno.writeTextFile(probe, `await ${code}.catch((error) => console.log(error.name + "."));`);
  const program = `${shim.folder}/gateway-shim`;
  const text = await Deno.readTextFile(program);
  // The unchanged launcher with another module, whose output is run as a command.
  await Deno.writeTextFile(program, text.replace(/"[^"]*main\.ts"/, `"${probe}"`));
  const { stderr } = await shim.run(shim.seal());
  assert.match(stderr, /NotCapable/);
});

Deno.test("gateway-shim-v1 starts the executable next to it, if present, with the paths compiled in", async () => {
  await using shim = await InstalledShim.create(FORMATS.v1);
  const main = new URL("../../shim/main.ts", import.meta.url).pathname;
  // The compiled verifier contains these arguments and permissions; a shell script replaces it here.
  await Deno.writeTextFile(
    `${shim.folder}/gateway-shim-verify`,
    `#!/bin/sh\nexec '${Deno.execPath()}' run --quiet --cached-only -RWE '${main}' '${shim.keyFile}' '${shim.store}' "$@"\n`,
    { mode: 0o755 },
  );
  await shim.edit("deno run", "./no-deno run");
  assert.equal((await shim.run(shim.seal())).stdout, "done\n");
  assert.match(
    (await shim.run(shim.seal({ host: "web02" }))).stderr,
    /refused: the envelope is for another host/,
  );
});

for (const { name, format, shell } of SHIMS) {
  const cases = REFUSED_CASES.filter(({ only }) => only === undefined || only === format.name);
  Deno.test.each(cases)(`${name} rejects $name`, async ({ envelope, arrange, options, reason }) => {
    await using shim = await InstalledShim.create(format, shell);
    await arrange?.(shim);
    const sent = envelope === undefined ? shim.seal() : envelope(shim);
    const { code, stdout, stderr } = await shim.run(sent, options);
    const expected = reason.replace("KEYS", shim.keyFile).replace("STORE", shim.store);
    // A program that cannot be started may print an error first.
    const told = reason.includes("not run") ? stderr.slice(stderr.indexOf("gateway-shim:")) : stderr;
    assert.deepEqual({ code, stdout, told }, {
      code: 126,
      stdout: "",
      told: `gateway-shim: refused: ${expected}\n`,
    });
    if (reason.includes("STORE")) return;
    assert.deepEqual(shim.claims(), []);
  });
}

const SENT = ".shell id\n\0rest";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const FORGED = "the signature is not of a pinned key";
const V2 = "gateway-sealed-exec-v2";
const V3 = "gateway-sealed-exec-v3";

interface StdinCase {
  readonly name: string;
  readonly envelope: string;
  /** The namespaces of the key in the allowed signers file (default: both formats). */
  readonly namespaces?: readonly string[];
  /** The output of `cat`, or the reason why the shim rejects the list. */
  readonly printed?: string;
  readonly refused?: string;
}

const v2 = () => FORMATS.v2.seal(freshFields({ command: "cat" }), SIGNER_KEY);
const v3 = (stdin: string) => FORMATS.v3.seal(freshFields({ command: "cat", stdin }), SIGNER_KEY);
const MALFORMED = "the stdin is malformed";

const cases = (): readonly StdinCase[] => [
  { name: "none", envelope: v3("none"), printed: "" },
  { name: "the SHA-256 of the input", envelope: v3(sha256(SENT)), printed: SENT },
  {
    name: "the SHA-256 of different input",
    envelope: v3(sha256("other")),
    refused: "the stdin is not what the signer has signed",
  },
  { name: "watch", envelope: v3("watch"), printed: SENT },
  { name: "any", envelope: v3("any"), refused: MALFORMED },
  { name: "a digest of 63 digits", envelope: v3("a".repeat(63)), refused: MALFORMED },
  { name: "a digest in capitals", envelope: v3(sha256(SENT).toUpperCase()), refused: MALFORMED },
  { name: "a path in place of a digest", envelope: v3(`../${"a".repeat(61)}`), refused: MALFORMED },
  { name: "nothing of it, in v2", envelope: v2(), printed: SENT },
  { name: "none, sent as v2", envelope: v3("none").replace("v3.", ""), refused: FORGED },
  { name: "nothing of it, sent as v3", envelope: `v3.${v2()}`, refused: FORGED },
  { name: "none, to a host of before v3", envelope: v3("none"), namespaces: [V2], refused: FORGED },
  { name: "nothing of it, to a host that pins v3", envelope: v2(), namespaces: [V3], refused: FORGED },
  { name: "none, to a host that pins v3", envelope: v3("none"), namespaces: [V3], printed: "" },
];

for (const { name: shimName, shell } of SHIMS.filter(({ format }) => format.name === "v2")) {
  for (const { name } of cases()) {
    Deno.test(`${shimName} enforces an envelope whose stdin is ${name}`, async () => {
      const row = cases().find((each) => each.name === name)!;
      await using shim = await InstalledShim.create(FORMATS.v3, shell);
      await shim.writeKeys(allowedSignersLine(SIGNER_KEY, row.namespaces ?? [V2, V3]));
      const { code, stdout, stderr } = await shim.run(row.envelope, { stdin: SENT });
      assert.deepEqual({ code, stdout, stderr }, {
        code: row.refused === undefined ? 0 : 126,
        stdout: row.printed ?? "",
        stderr: row.refused === undefined ? "" : `gateway-shim: refused: ${row.refused}\n`,
      });
      const left = shim.claims().flatMap((claim) => [...Deno.readDirSync(`${shim.store}/${claim}`)]);
      assert.deepEqual(left, [], "the copy of the input is removed");
    });
  }
}
