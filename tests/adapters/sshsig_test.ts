import assert from "node:assert/strict";
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

const ignore = !mustOrMayUseSshKeygen();
const VECTORS = new URL("../vectors/ssh/", import.meta.url);
const key = createEnvelopeKey(new Uint8Array(32).fill(1));

Deno.test("ssh-keygen verifies an envelope of v2, whatever is in its command", { ignore }, async () => {
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

Deno.test("ssh-keygen refuses an envelope's signature for another namespace", { ignore }, async () => {
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
  "ssh-keygen verifies what $name signed, and refuses it for another message",
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

/** What `ssh-keygen -Y verify` says; an error with its words where it refuses. */
async function verify(
  message: Uint8Array,
  signature: string,
  { signers, namespace }: { signers: string; namespace: string },
): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/signers`, `${signers}\n`);
    await Deno.writeTextFile(`${folder}/signature`, signature);
    const child = new Deno.Command("ssh-keygen", {
      args: [
        ...["-Y", "verify", "-f", `${folder}/signers`, "-I", "signer"],
        ...["-n", namespace, "-s", `${folder}/signature`],
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
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
