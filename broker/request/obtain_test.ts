import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { Authority, CertificateRequest } from "../authority/authority.ts";
import { ask, type ObtainPorts, obtainRoute } from "./obtain.ts";

const { signal } = new AbortController();
const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: "k" };
const lost = new AppError("answer_lost", "The answer of the signer was lost");

/** An authority whose first answers are lost. */
function losing(count: number) {
  const asked: CertificateRequest[] = [];
  const answer = () => {
    if (asked.length <= count) throw lost;
    return { kind: "issued" as const, serial: 7n, decision: undefined, waited: false };
  };
  const authority = {
    async sign(request: CertificateRequest) {
      asked.push(request);
      await Promise.resolve();
      return { ...answer(), certificate: "c", elevationPrefix: "" };
    },
    async token(request: unknown) {
      asked.push(request as CertificateRequest);
      await Promise.resolve();
      return { ...answer(), token: "t" };
    },
  };
  let keys = 0;
  const createKey = () => ({ publicKeyLine: `key-${++keys}` });
  return {
    asked,
    ports: { authority: authority as unknown as Authority, createKey } as unknown as ObtainPorts,
  };
}

const bastion = { name: "jump01", role: "bastion", host: HOST } as const;
const target = { name: "web01", role: "target", host: HOST } as const;
const INTENT = {
  caller: "a",
  callerGroups: null,
  purpose: "oneshot",
  ttlSeconds: 60,
  target: { command: "id" },
} as const;

Deno.test("a certificate whose answer was lost is asked for anew, each time for another key", async () => {
  const { asked, ports } = losing(2);
  const obtained = await obtainRoute(ports, { route: [bastion, target], intent: INTENT }, { signal });
  assert.equal(obtained.kind, "issued");
  assert.deepEqual(asked.map(({ host, public_key }) => [host, public_key]), [
    ["jump01", "key-1"],
    ["jump01", "key-2"],
    ["jump01", "key-3"],
    ["web01", "key-4"],
  ]);
});

Deno.test("a token whose answer was lost is asked for anew", async () => {
  const { asked, ports } = losing(1);
  const request = { host: "prod", command: "get pods" } as never;
  const answer = await ask("token", (options) => ports.authority.token(request, options), { signal });
  assert.equal(answer.kind, "issued");
  assert.equal(asked.length, 2);
});

Deno.test("answers that are lost again and again end in a failure", async () => {
  const { asked, ports } = losing(9);
  const obtaining = obtainRoute(ports, { route: [target], intent: INTENT }, { signal });
  await assert.rejects(obtaining, { code: "upstream_failure", message: /answer of the signer was lost/ });
  assert.equal(asked.length, 3);
});
