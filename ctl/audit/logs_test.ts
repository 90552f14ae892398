import assert from "node:assert/strict";
import { mergeByTime } from "./logs.ts";
import type { LogRecord } from "./record.ts";
import { type ApiEvent, TokenSearch } from "./tokens.ts";

/** Lines of a log. The time `x` creates a line that is not a record. */
async function* logOf(...times: readonly string[]): AsyncGenerator<LogRecord | undefined> {
  for (const time of times) {
    await Promise.resolve();
    yield time === "x"
      ? undefined
      : { text: time, record: { time: `2026-01-02T03:04:${time}Z` } as LogRecord["record"] };
  }
}

Deno.test.each([
  {
    name: "one log as it is, also where its clock was set back",
    logs: [["03", "01", "02"]],
    merged: "03 01 02",
  },
  { name: "several by time", logs: [["01", "04"], ["02", "05"], ["03"]], merged: "01 02 03 04 05" },
  {
    name: "fractions of a second as numbers",
    logs: [["01.5"], ["01.25", "01.75"]],
    merged: "01.25 01.5 01.75",
  },
  { name: "equal times in the order of the logs", logs: [["01", "01"], ["01"]], merged: "01 01 01" },
  {
    name: "lines that are not records at once",
    logs: [["02", "x", "03"], ["01", "x"]],
    merged: "01 x 02 x 03",
  },
  { name: "empty logs as nothing", logs: [[], []], merged: "" },
])("mergeByTime() merges $name", async ({ logs, merged }) => {
  const seen = await Array.fromAsync(
    mergeByTime(logs.map((times) => logOf(...times))),
    (record) => record?.text ?? "x",
  );
  assert.equal(seen.join(" "), merged);
});

const AGENT = "system:serviceaccount:broker:agent";
const MINTER = "system:serviceaccount:broker:minter";

function use(auditId: string, fields: Partial<ApiEvent> = {}): ApiEvent {
  return {
    auditId,
    time: "2026-11-22T12:32:11Z",
    verb: "get",
    uri: "/",
    user: AGENT,
    impersonated: undefined,
    jti: "ours",
    issuedJti: undefined,
    object: undefined,
    status: 200,
    addresses: [],
    ...fields,
  };
}

function issue(auditId: string, issuedJti: string, fields: Partial<ApiEvent> = {}): ApiEvent {
  const object = {
    group: "",
    resource: "serviceaccounts",
    subresource: "token",
    namespace: "broker",
    name: "agent",
  };
  return use(auditId, { user: MINTER, jti: "minter", issuedJti, object, ...fields });
}

function search(...events: readonly ApiEvent[]): TokenSearch {
  return searchWith([], events);
}

function searchWith(checked: readonly string[], events: readonly ApiEvent[]): TokenSearch {
  const token = {
    verb: "get",
    resource: "pods",
    group: "",
    namespace: "web",
    name: "a",
    isForPreview: false,
  };
  const tokens = new Map(["ours", "unused"].map((jti) => [jti, { ...token, jti }]));
  const found = new TokenSearch(tokens, new Set(checked));
  for (const event of events) found.learn(event);
  for (const event of events) found.take(event);
  return found;
}

const idsOf = (events: readonly ApiEvent[]) => events.map(({ auditId }) => auditId);

Deno.test("TokenSearch finds the issuer and the uses of a token, each request once", () => {
  const found = search(
    issue("1", "ours"),
    use("2", { status: undefined }),
    use("2"),
    use("3", { status: 403 }),
  );
  const { issued, used } = found.find("ours");
  assert.deepEqual([idsOf(issued), used.map(({ event }) => [event.auditId, event.status])], [
    ["1"],
    [["2", 200], ["3", 403]],
  ]);
  assert.deepEqual([found.found, found.find("unused")], [1, { issued: [], used: [], isCut: false }]);
});

Deno.test.each<{ name: string; events: readonly ApiEvent[]; unexplained: string[] }>([
  { name: "requests that the records explain", events: [issue("1", "ours"), use("2")], unexplained: [] },
  {
    name: "another token of the same account, also before the recorded issue",
    events: [use("1", { jti: "foreign" }), issue("2", "ours"), use("3", { jti: "foreign" })],
    unexplained: ["1", "3"],
  },
  {
    name: "a use of the account without a token ID",
    events: [issue("1", "ours"), use("2", { jti: undefined })],
    unexplained: ["2"],
  },
  {
    name: "another token of the account if the log begins after the issue",
    events: [use("1"), use("2", { jti: "foreign" })],
    unexplained: ["2"],
  },
  {
    name: "a token that another user had issued for the account",
    events: [issue("1", "ours"), issue("2", "foreign", { user: "admin" })],
    unexplained: ["2"],
  },
  {
    name: "a token of another account from the same minter",
    events: [
      issue("1", "ours"),
      issue("2", "foreign", {
        object: {
          group: "",
          resource: "serviceaccounts",
          subresource: "token",
          namespace: "kube-system",
          name: "root",
        },
      }),
    ],
    unexplained: ["2"],
  },
  {
    name: "an administrator who impersonates the account",
    events: [use("1"), use("2", { user: "admin", jti: undefined, impersonated: AGENT })],
    unexplained: ["2"],
  },
  {
    name: "accounts without a token in the audit records",
    events: [issue("1", "ours"), use("2", { user: "system:serviceaccount:kube-system:x", jti: "foreign" })],
    unexplained: [],
  },
  {
    name: "the minter's other requests",
    events: [issue("1", "ours"), use("2", { user: MINTER, jti: "minter" })],
    unexplained: [],
  },
])("TokenSearch lists the unexplained requests: $name", ({ events, unexplained }) => {
  assert.deepEqual(idsOf(search(...events).unexplained.events), unexplained);
});

Deno.test("TokenSearch treats a token of a check as explained if it only requests access reviews", () => {
  const review = (resource: string) => ({
    verb: "create",
    object: { group: "authorization.k8s.io", resource, subresource: "", namespace: "", name: "" },
  });
  const events = [
    issue("1", "ours"),
    issue("2", "checks"),
    use("3", { jti: "checks", ...review("selfsubjectrulesreviews") }),
    use("4", { jti: "checks", ...review("selfsubjectaccessreviews") }),
    use("5", { jti: "checks", ...review("subjectaccessreviews") }),
    use("6", { jti: "checks" }),
  ];
  assert.deepEqual(idsOf(searchWith(["checks"], events).unexplained.events), ["5", "6"]);
  assert.deepEqual(idsOf(searchWith([], events).unexplained.events), ["2", "3", "4", "5", "6"]);
});

Deno.test("TokenSearch keeps at most 1000 unexplained requests and reports that the list is cut", () => {
  const foreign = Array.from({ length: 1001 }, (_, index) => use(`f${index}`, { jti: "foreign" }));
  const found = search(issue("1", "ours"), ...foreign);
  assert.deepEqual([found.unexplained.events.length, found.unexplained.isCut], [1000, true]);
  assert.equal(search(issue("1", "ours"), ...foreign.slice(0, 1000)).unexplained.isCut, false);
});

Deno.test("TokenSearch keeps a use outside a token's purpose although 1001 other uses precede it", () => {
  const object = { group: "", resource: "pods", subresource: "", namespace: "web", name: "a" };
  const many = Array.from({ length: 1001 }, (_, index) => use(`w${index}`, { object }));
  const late = "2026-11-22T12:33:00Z";
  const { used, isCut } = search(
    ...many,
    use("theft", { object: { ...object, resource: "secrets" }, time: late }),
  )
    .find("ours");
  assert.deepEqual([used.length, isCut], [1001, true]);
  assert.deepEqual(used.filter(({ asRecorded }) => !asRecorded).map(({ event }) => event.auditId), ["theft"]);
  assert.equal(used.at(-1)?.event.auditId, "theft");
});
