import assert from "node:assert/strict";
import { entered, parseDecisionForm } from "./decision_form.ts";

const TTL = "&ttl=3600&amount=2&unit=3600";

Deno.test.each<
  {
    name: string;
    body: string;
    approve: boolean;
    learn: boolean;
    ttlSeconds: number;
    comment?: string;
    shown?: readonly string[];
  }
>([
  {
    name: "takes a comment, without blanks around it",
    body: "decision=approve&comment=+looks+fine%0a",
    approve: true,
    learn: false,
    ttlSeconds: 0,
    comment: "looks fine",
  },
  {
    name: "reads which requests the page showed",
    body: "decision=approve&shown=a&shown=b",
    approve: true,
    learn: false,
    ttlSeconds: 0,
    shown: ["a", "b"],
  },
  { name: "approves", body: `decision=approve${TTL}`, approve: true, learn: false, ttlSeconds: 0 },
  { name: "denies", body: `decision=deny${TTL}`, approve: false, learn: false, ttlSeconds: 0 },
  { name: "learns", body: `decision=learn${TTL}`, approve: true, learn: true, ttlSeconds: 3600 },
  {
    name: "learns for another time",
    body: "decision=learn&ttl=other&amount=10&unit=60",
    approve: true,
    learn: true,
    ttlSeconds: 600,
  },
  {
    name: "learns for days",
    body: "decision=learn&ttl=other&amount=007&unit=86400",
    approve: true,
    learn: true,
    ttlSeconds: 604_800,
  },
  {
    name: "ignores fields it does not know",
    body: "decision=deny&x=1&approve=true",
    approve: false,
    learn: false,
    ttlSeconds: 0,
  },
])("parseDecisionForm() $name", ({ body, approve, learn, ttlSeconds, comment = "", shown = [] }) => {
  const expected = { approve, learn, ttl_seconds: ttlSeconds, comment, shown_ids: shown };
  assert.deepEqual(parseDecisionForm(body), expected);
});

Deno.test.each([
  { name: "nothing", body: "", detail: /approve or to deny/ },
  { name: "no decision", body: "ttl=3600", detail: /approve or to deny/ },
  { name: "another decision", body: "decision=yes", detail: /approve or to deny/ },
  { name: "an upper case decision", body: "decision=APPROVE", detail: /approve or to deny/ },
  { name: "JSON", body: '{"approve":true}', detail: /approve or to deny/ },
  { name: "two decisions", body: "decision=deny&decision=approve", detail: /decision more than once/ },
  { name: "two times", body: "decision=learn&ttl=60&ttl=3600", detail: /ttl more than once/ },
  { name: "no time", body: "decision=learn", detail: /for how long/ },
  { name: "an empty time", body: "decision=learn&ttl=", detail: /for how long/ },
  { name: "no number", body: "decision=learn&ttl=other&amount=&unit=60", detail: /for how long/ },
  { name: "no unit", body: "decision=learn&ttl=other&amount=5", detail: /for how long/ },
  { name: "nothing of a unit", body: "decision=learn&ttl=other&amount=0&unit=60", detail: /for how long/ },
  { name: "less than nothing", body: "decision=learn&ttl=-60", detail: /for how long/ },
  { name: "a fraction", body: "decision=learn&ttl=other&amount=1.5&unit=3600", detail: /for how long/ },
  { name: "an exponent", body: "decision=learn&ttl=1e3", detail: /for how long/ },
  { name: "hexadecimal", body: "decision=learn&ttl=0x10", detail: /for how long/ },
  { name: "spaces", body: "decision=learn&ttl=+60", detail: /for how long/ },
  {
    name: "more digits than a number keeps",
    body: `decision=learn&ttl=${"9".repeat(30)}`,
    detail: /for how long/,
  },
  {
    name: "more than 100 years",
    body: "decision=learn&ttl=other&amount=9999999999&unit=86400",
    detail: /shorter/,
  },
])("parseDecisionForm() refuses $name", ({ body, detail }) => {
  assert.throws(() => parseDecisionForm(body), { code: "invalid_request", message: detail });
});

Deno.test("entered() gives back what was entered, in bounds", () => {
  assert.deepEqual(entered("ttl=other&amount=x&unit=60&comment=y"), {
    ttl: "other",
    amount: "x",
    unit: "60",
    comment: "y",
  });
  assert.equal(entered(`amount=${"9".repeat(4000)}`).amount.length, 20);
});
