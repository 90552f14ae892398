import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { createRedactStreams } from "@gateway/shared/redact";
import { createRecordingFile, Recorder } from "../../broker/sessions/recorder.ts";
import {
  allowedSignersLine,
  createEnvelopeKey,
  ENVELOPE_NAMESPACES,
  mintEnvelope,
} from "../../shared/envelope/mod.ts";
import { parsePrivateKey } from "@gateway/shared/ca/pem";
import { formatPublicKey } from "@gateway/shared/ssh";
import { armorSshsig, signSshsig } from "../../shared/ssh/keys.ts";
import { FixedRandom } from "@gateway/shared/testing";
import { mustOrMayUseSshKeygen } from "../stage/ssh_keygen.ts";
import { createFolder } from "../stage/folder.ts";

const SESSION = "0123456789abcdef01234567";

async function startRecorder(folder: string, strict = false) {
  const failures: unknown[] = [];
  const recorder = await Recorder.start({
    file: await createRecordingFile(folder, SESSION),
    header: {
      sessionId: SESSION,
      caller: "agent-1",
      host: "web01",
      serial: 18446744073709551615n,
      startedAt: systemClock.now(),
    },
    clock: systemClock,
    openRedaction: createRedactStreams(undefined),
    strict,
    onFailure: (error) => failures.push(error),
  });
  return { recorder, failures };
}

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  await using folder = await createFolder();
  await run(folder.path);
}

/** Output of asciinema for a recording; undefined if asciinema is not installed and not required. */
async function play(path: string): Promise<string | undefined> {
  if (Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && !await isInstalled("asciinema")) return undefined;
  // asciinema requires a terminal, even for output only.
  const { success, stdout } = await new Deno.Command("script", {
    args: ["-qec", `asciinema cat '${path}' > '${path}.played'`, "/dev/null"],
    stdin: "null",
  }).output();
  assert.ok(success, new TextDecoder().decode(stdout));
  return await Deno.readTextFile(`${path}.played`);
}

async function isInstalled(program: string): Promise<boolean> {
  return (await new Deno.Command("sh", { args: ["-c", `command -v ${program}`], stdout: "null" }).output())
    .success;
}

Deno.test("a recording plays in asciinema, and its digest matches the file", async () => {
  await withFolder(async (folder) => {
    const { recorder } = await startRecorder(folder);
    await recorder.input("echo ä\n");
    await recorder.output("ä \u001b[31mred\u001b[0m\r\n");
    await recorder.output("last");
    const summary = await recorder.close();
    assert.equal(await recorder.close(), summary);
    const { sha256, bytes, complete } = summary;
    const path = join(folder, `${SESSION}.cast`);
    const content = await Deno.readFile(path);
    assert.equal(complete, true);
    assert.equal(bytes, content.length);
    assert.equal(sha256, createHash("sha256").update(content).digest("hex"));
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
    const played = await play(path);
    if (played !== undefined) assert.equal(played, "ä \u001b[31mred\u001b[0m\r\nlast");
  });
});

Deno.test("starting a recording does not overwrite an existing file", async () => {
  await withFolder(async (folder) => {
    const { recorder } = await startRecorder(folder);
    await recorder.close();
    await assert.rejects(startRecorder(folder), Deno.errors.AlreadyExists);
  });
});

Deno.test("starting a recording fails if its directory does not exist", async () => {
  await withFolder(async (folder) => {
    await assert.rejects(startRecorder(join(folder, "none")), Deno.errors.NotFound);
  });
});

const ignore = !mustOrMayUseSshKeygen();
const VECTORS = new URL("../vectors/ssh/", import.meta.url);
const key = createEnvelopeKey(new Uint8Array(32).fill(1));

Deno.test("ssh-keygen verifies an envelope of v2 with any command text", { ignore }, async () => {
  for (const command of ["uptime", "printf '%s' é😀\n\n", "x".repeat(60_000), "a\rb\tc\u2028"]) {
    const wire = mintEnvelope({ host: "web01", command, stdin: "none" }, {
      key,
      format: { version: "v2" },
      now: 1_700_000_000_000,
      random: new FixedRandom(),
    });
    const [message, signature] = wire.split(".").map((part) =>
      Uint8Array.fromBase64(part, { alphabet: "base64url" })
    );
    const verified = await verify(message!, armorSshsig(signature!), {
      signers: allowedSignersLine(key, [ENVELOPE_NAMESPACES.v2]),
      namespace: ENVELOPE_NAMESPACES.v2,
    });
    assert.match(verified, /^Good "gateway-sealed-exec-v2" signature for signer with ED25519 key/);
  }
});

Deno.test("ssh-keygen rejects an envelope's signature for another namespace", { ignore }, async () => {
  const message = new TextEncoder().encode("hello");
  const signature = armorSshsig(signSshsig(key.ssh, "gateway-krl-v1", message));
  const options = {
    signers: allowedSignersLine(key, [ENVELOPE_NAMESPACES.v2]),
    namespace: ENVELOPE_NAMESPACES.v2,
  };
  await assert.rejects(verify(message, signature, options), /namespace|Could not verify/);
});

Deno.test.each([{ name: "ca_ed25519" }, { name: "ca_ecdsa256" }, { name: "ca_ecdsa521" }, {
  name: "ca_rsa",
}])(
  "ssh-keygen verifies a signature of $name and rejects it for another message",
  { ignore },
  async ({ name }) => {
    const signer = parsePrivateKey(await Deno.readTextFile(new URL(name, VECTORS)));
    const message = new TextEncoder().encode("a message");
    const signature = armorSshsig(signSshsig(signer, "file", message));
    const options = {
      signers: `signer ${formatPublicKey(signer.algorithm, signer.publicKey)}`,
      namespace: "file",
    };
    assert.match(await verify(message, signature, options), /^Good "file" signature/);
    await assert.rejects(verify(message.with(0, 0), signature, options), /incorrect signature/);
  },
);

/** Output of `ssh-keygen -Y verify`; throws an error with its message on rejection. */
async function verify(
  message: Uint8Array,
  signature: string,
  { signers, namespace }: { signers: string; namespace: string },
): Promise<string> {
  await using folder = await createFolder();
  await Deno.writeTextFile(`${folder.path}/signers`, `${signers}\n`);
  await Deno.writeTextFile(`${folder.path}/signature`, signature);
  const child = new Deno.Command("ssh-keygen", {
    args: [
      ...["-Y", "verify", "-f", `${folder.path}/signers`, "-I", "signer"],
      ...["-n", namespace, "-s", `${folder.path}/signature`],
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await new Response(message as Uint8Array<ArrayBuffer>).body!.pipeTo(child.stdin);
  const { success, stdout, stderr } = await child.output();
  const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  if (!success) throw new Error(said);
  return said;
}
