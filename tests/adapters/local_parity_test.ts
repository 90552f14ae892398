import assert from "node:assert/strict";
import fc from "fast-check";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { encodeOpensshPrivateKey, parseCertificate } from "@gateway/shared/ssh";
import { FakeClock, FixedRandom } from "@gateway/shared/testing";
import type { CertificateRequest, SignAnswer } from "../../broker/authority/authority.ts";
import { compileLocalPolicy, LocalAuthority } from "../../broker/authority/local.ts";
import type { BrokerHost } from "../../broker/config/config.ts";
import { HOST_KEY, NOW_MS, startSigner } from "../../signer/testing/memory_signer.ts";

const { signal } = new AbortController();
const SETTINGS = { numRuns: 150, seed: 20_261 };

/** Usually the first value, so that many requests pass most checks. */
function mostly<T>(usual: T, ...odd: readonly T[]): fc.Arbitrary<T> {
  return fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, {
    weight: 1,
    arbitrary: fc.constantFrom(...odd),
  });
}

const pattern = fc.constantFrom("^uptime$", "^echo ", "restart", ".*", "^id$");
const patterns = fc.array(pattern, { maxLength: 2 });
const commandPolicy = fc.record({
  mode: fc.constantFrom("" as const, "off" as const, "allowlist" as const, "denylist" as const),
  enforcement: fc.constantFrom("" as const, "enforce" as const, "audit" as const),
  allow: patterns,
  deny: patterns,
  require_approval: patterns,
  shell_parse: fc.boolean(),
}, { requiredKeys: [] });

const host = fc.record({
  principal: mostly("host:x", ""),
  source_address: fc.constantFrom("", "10.1.0.0/16"),
  allow_as_bastion: fc.boolean(),
  allow_sudo: fc.boolean(),
  allowed_sudo_users: fc.subarray(["db", "deploy"]),
  allow_pty: fc.boolean(),
  allow_file_transfer: fc.boolean(),
  stop_on_disconnect: fc.boolean(),
  groups: fc.subarray(["web", "db"]),
  command_policy: commandPolicy,
}, { requiredKeys: ["principal"] }).map((keys): BrokerHost => ({
  addr: "10.0.0.1:22",
  user: "deploy",
  host_key: HOST_KEY,
  shared_principal: true,
  ...keys,
}));

const policy = fc.record({
  hosts: fc.record({ web01: host, db01: host }),
  command_policies: fc.record({ base: commandPolicy }),
  group_command_policies: fc.record({
    _default: fc.subarray(["base"]),
    web: fc.subarray(["base"]),
  }, { requiredKeys: [] }),
  max_ttl_seconds: fc.integer({ min: 1, max: 900 }),
});

const request = fc.record({
  host: fc.oneof(fc.constantFrom("web01", "db01"), mostly("web01", "gone", "web01 role=bastion")),
  role: mostly("target", "bastion", "root"),
  purpose: mostly("oneshot", "session", "life"),
  session_mode: fc.constantFrom("", "exec", "shell", "pty", "other"),
  command: fc.oneof(
    mostly("uptime", "echo $(id)", "a\nb", "", "x > y"),
    fc.constantFrom("echo a; id", "systemctl restart x", "id"),
  ),
  ttl_seconds: fc.integer({ min: -1, max: 1000 }),
  public_key: mostly(HOST_KEY, "ssh-ed25519 AAAA"),
  sudo: mostly(false, true),
  sudo_user: fc.constantFrom("", "root", "db", "eve"),
  pty: mostly(false, true),
  file_transfer: mostly(false, true),
  dry_run: mostly(false, true),
  preflight: mostly(false, true),
  approved: fc.boolean(),
  end_user: mostly("alice", "", "eve user=x"),
  end_user_groups: mostly<string[] | null>(null, [], ["web"], ["db", "web"]),
  target_type: mostly("", "ssh", "vm"),
}, { requiredKeys: ["host", "role", "purpose", "public_key", "end_user_groups", "command"] });

/** The comparable fields: serials and signatures differ between the two modes. */
function summary(certificate: string) {
  const { keyId, principals, criticalOptions, extensions, validAfter, validBefore } = parseCertificate(
    certificate,
  );
  return {
    keyId,
    principals,
    criticalOptions: { ...criticalOptions },
    extensions,
    validAfter,
    validBefore,
  };
}

function ofLocal(answer: SignAnswer) {
  switch (answer.kind) {
    case "issued":
      return {
        status: 200,
        decision: plain(answer.decision),
        certificate: summary(answer.certificate),
        elevationPrefix: answer.elevationPrefix,
      };
    case "decided":
      return { status: 200, decision: plain(answer.decision) };
    case "needs_approval":
      return { status: 200, needsApproval: answer.rule };
    case "rejected":
      return { status: answer.status, detail: answer.detail };
    default:
      throw new TypeError(`no such answer in local mode: ${answer.kind}`);
  }
}

function ofSigner({ status, body }: { status: number; body: Record<string, unknown> }, isDryRun: boolean) {
  if (status !== 200) return { status, detail: body["detail"] };
  const decision = plain(body["decision"]) as Record<string, unknown>;
  const { certificate } = body;
  if (typeof certificate === "string") {
    const elevationPrefix = body["elevation_prefix"] ?? "";
    return { status, decision, certificate: summary(certificate), elevationPrefix };
  }
  return isDryRun ? { status, decision } : { status, needsApproval: decision["matched_rule"] ?? "" };
}

/** The value after JSON serialization. */
function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** A policy as the signer's config has it, without the additional keys of the broker. */
function isCompilable(config: Parameters<typeof compileLocalPolicy>[0]): boolean {
  try {
    compileLocalPolicy(config);
    return true;
  } catch {
    return false;
  }
}

Deno.test("a broker in local mode makes the same decisions and certificates as the signer", async () => {
  const caKey = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
  const kinds = new Set<string>();
  await fc.assert(
    fc.asyncProperty(policy, fc.array(request, { minLength: 1, maxLength: 8 }), async (config, requests) => {
      const local = { ...config, source_address: "" };
      fc.pre(isCompilable(local));
      const authority = new LocalAuthority({
        policy: compileLocalPolicy(local),
        caKeys: { fallback: caKey, byGroup: new Map() },
        ...{ cas: new Map(), api: { request: () => Promise.reject(new Error("not asked")), close() {} } },
        clock: new FakeClock(NOW_MS),
        random: new FixedRandom([0xfe]),
        events: { require: () => Promise.resolve() },
      });
      // A forwarder's confirmation of an approval is accepted, like the broker's own in local mode.
      const signer = await startSigner({ ...config, callers: {}, trusted_forwarders: ["local"] });
      assert.deepEqual(
        plain(await authority.hosts()),
        plain((await signer.send(new Request("https://signer/v1/hosts"), "local")).body),
      );
      for (const body of requests as readonly CertificateRequest[]) {
        const answer = await authority.sign(body, { signal });
        kinds.add(answer.kind);
        const reply = await signer.sign({ command: "", ...body }, "local");
        assert.deepEqual(ofLocal(answer), ofSigner(reply, body.dry_run === true), JSON.stringify(body));
      }
    }),
    SETTINGS,
  );
  assert.deepEqual([...kinds].sort(), ["decided", "issued", "needs_approval", "rejected"]);
});
