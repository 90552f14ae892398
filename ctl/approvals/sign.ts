// Signs the approval of a request with an SSH key. The signed digest is computed here, over exactly the fields that
// are printed, so a control plane that shows another request than it sends to the signer gets no valid signature.
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import {
  APPROVAL_NAMESPACE,
  digestSubject,
  formatDocument,
  MAX_DOCUMENT_SECONDS,
  sha256Hex,
} from "@gateway/shared/proofs";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import type { ApprovalProof, ApprovalRecord, SignedApproval } from "@gateway/shared/wire";
import type { Call } from "../kit/command.ts";
import { confirm } from "../kit/confirm.ts";
import { HintedError, invalid } from "../kit/output.ts";

/** The options that signing needs. */
export const SIGN = {
  "--sign-key <file>":
    "SSH key that signs the approval: a private key, or the public key of a key in ssh-agent",
  "--as <name>": "with --sign-key: your name in approvals.approvers of the signer's config",
  "--yes": "with --sign-key: sign without a question",
} as const;

/** The values of {@linkcode SIGN}. */
export interface SignFlags {
  readonly signKey?: string;
  readonly as?: string;
  readonly yes?: boolean;
}

/** Shows a request, asks, and signs its approval. */
export async function signApproval(
  call: Call,
  record: ApprovalRecord,
  signed: SignedApproval,
  { signKey, as: approver, yes = false, learnTtlSeconds = 0 }: SignFlags & {
    readonly learnTtlSeconds?: number;
  },
): Promise<ApprovalProof> {
  if (signKey === undefined || approver === undefined) {
    throw invalid(`Cannot sign ${record.id} without a name`, undefined, "pass --as NAME");
  }
  const { subject } = signed;
  call.terminal.err(
    describeSubject(signed, record, { approver, learnTtlSeconds }).map(visibleText).join("\n") + "\n",
  );
  const { terminal, keys } = call;
  if (!yes && keys === undefined) {
    throw invalid(`Cannot ask for a signature of ${record.id} without a terminal`, undefined, "pass --yes");
  }
  const isSure = yes || keys === undefined ||
    await confirm({ terminal, keys }, "Sign the approval of this request?");
  if (!isSure) throw invalid(`The request ${record.id} was not approved`);
  const document = formatDocument({
    v: 1,
    installation: signed.installation,
    request: digestSubject(subject),
    approver,
    decision: "approve",
    learn_ttl_seconds: learnTtlSeconds,
    uses: 1,
    expires_at: documentExpiry(record),
    nonce: systemRandom.bytes(16).toHex(),
  });
  const armored = await signWithSshKeygen(signKey, document);
  const base64 = armored.split("\n").filter((line) => line !== "" && !line.startsWith("-----")).join("");
  const signature = Uint8Array.fromBase64(base64).toBase64({ alphabet: "base64url", omitPadding: true });
  return { kind: "ssh", document, signature };
}

/** The broker can collect an approval for as long as approvers could decide, so the document must last as long. */
function documentExpiry({ created_at, expires_at = "" }: ApprovalRecord): number {
  const [created, expires] = [Date.parse(created_at), Date.parse(expires_at)];
  const now = Math.floor(systemClock.now() / 1000);
  const seconds = Math.ceil((2 * expires - created) / 1000);
  return Math.min(Number.isNaN(seconds) ? now + 3600 : seconds + 60, now + MAX_DOCUMENT_SECONDS - 60);
}

/** The fields that the signature is about, without empty ones. */
function describeSubject(
  { subject, installation }: SignedApproval,
  { k8s_manifest: manifest = "" }: ApprovalRecord,
  { approver, learnTtlSeconds }: { readonly approver: string; readonly learnTtlSeconds: number },
): readonly string[] {
  const fields = Object.entries(subject)
    .filter(([, value]) => value !== "" && value !== false && value !== 0 && value !== null)
    .map(([name, value]) => [name, typeof value === "string" ? quoteText(value) : JSON.stringify(value)]);
  const isWhole = subject.k8s_manifest_sha256 === "" || sha256Hex(manifest) === subject.k8s_manifest_sha256;
  return [
    `As ${quoteText(approver)} you sign this request:`,
    // Without it, a control plane could get a signature for a host of the same name elsewhere.
    `  ${"installation".padEnd(19)}  ${quoteText(installation)}`,
    ...fields.map(([name = "", value = ""]) => `  ${name.padEnd(19)}  ${value}`),
    `  ${"digest".padEnd(19)}  ${digestSubject(subject)}`,
    ...(learnTtlSeconds > 0 ? [`  identical requests then need no approval for ${learnTtlSeconds} s`] : []),
    ...(isWhole
      ? manifest === "" ? [] : [`  ${"manifest".padEnd(19)}  ${quoteText(manifest)}`]
      : ["WARNING: the manifest has masked values, so this program cannot check its digest."]),
  ];
}

async function signWithSshKeygen(key: string, document: string): Promise<string> {
  const args = ["-Y", "sign", "-n", APPROVAL_NAMESPACE, "-f", key, "-"];
  const child = (() => {
    try {
      // ssh-keygen asks for a passphrase or a touch on the terminal.
      return new Deno.Command("ssh-keygen", { args, stdin: "piped", stdout: "piped", stderr: "piped" })
        .spawn();
    } catch (cause) {
      throw new AppError("not_supported", "Cannot start ssh-keygen: is OpenSSH installed?", { cause });
    }
  })();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(document)).then(() => writer.close()).catch(() => undefined);
  const { success, stdout, stderr } = await child.output();
  if (success) return new TextDecoder().decode(stdout);
  const said = new TextDecoder().decode(stderr).trim().split("\n").at(-1) ?? "";
  const error = new AppError("invalid_request", `Cannot sign with ${quoteText(key)}: ${quoteText(said)}`);
  throw new HintedError(error, `ssh-keygen -lf ${shellQuote(key)}; for a key in an agent: ssh-add -l`);
}
