import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { createMetrics } from "@gateway/shared/service/metrics";
import type { Authority, CertificateRequest, SignAnswer } from "../authority/authority.ts";
import { createTimings, timeAuthority } from "./timings.ts";

const NEVER = new AbortController().signal;
const REQUEST: CertificateRequest = {
  host: "web01",
  public_key: "ssh-ed25519 A",
  role: "target",
  purpose: "oneshot",
  end_user_groups: null,
};

const notAsked = () => Promise.reject(new Error("not asked"));
const NOT_ASKED = { hosts: notAsked, rules: notAsked, clusters: notAsked, token: notAsked };

/** The series that one answer of an authority leads to. */
async function counted(sign: Authority["sign"]): Promise<readonly string[]> {
  const metrics = createMetrics();
  const inner: Authority = { ...NOT_ASKED, sign };
  await timeAuthority(inner, createTimings(metrics)).sign(REQUEST, { signal: NEVER }).catch(() => {});
  return (await metrics.text()).match(/^broker_\w+_count\{.*$/gm) ?? [];
}

const REJECTED: SignAnswer = { kind: "rejected", status: 403, detail: "denied by policy" };
const GRANTED: SignAnswer = { kind: "not_granted", status: 403, detail: "approval denied" };

Deno.test.each<{ name: string; sign: Authority["sign"]; series: string }>([
  {
    name: "an answer as signing, by its kind",
    sign: () => Promise.resolve(REJECTED),
    series: 'broker_sign_duration_seconds_count{result="rejected"} 1',
  },
  {
    name: "a fault as signing, by its code",
    sign: () => Promise.reject(new AppError("upstream_failure", "signer at 10.0.0.1")),
    series: 'broker_sign_duration_seconds_count{result="upstream_failure"} 1',
  },
  {
    name: "a defect as signing, and nothing of its text",
    sign: () => Promise.reject(new Error("x")),
    series: 'broker_sign_duration_seconds_count{result="internal"} 1',
  },
  {
    name: "what a human was waited for as an approval alone, however often that is told",
    sign: (_request, { onWaiting }) => {
      for (let time = 0; time < 3; time += 1) onWaiting?.("id");
      return Promise.resolve(GRANTED);
    },
    series: 'broker_approval_wait_seconds_count{result="not_granted"} 1',
  },
])("timeAuthority() counts $name", async ({ sign, series }) => {
  assert.deepEqual(await counted(sign), [series]);
});

Deno.test("timeAuthority() passes on who waits for what", async () => {
  const told: string[] = [];
  const sign: Authority["sign"] = (request, { onWaiting }) => {
    onWaiting?.(request.host);
    return Promise.resolve(GRANTED);
  };
  const authority = timeAuthority(
    { ...NOT_ASKED, sign },
    createTimings(createMetrics()),
  );
  const answer = await authority.sign(REQUEST, { signal: NEVER, onWaiting: (id) => told.push(id) });
  assert.deepEqual([told, answer], [["web01"], GRANTED]);
});
