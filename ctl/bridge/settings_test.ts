import assert from "node:assert/strict";
import { bridgePermissions, readSettings } from "./settings.ts";
import { findObjection, type IdentityMap, parseIdentityMap } from "./guard.ts";
import type { Member } from "./chat.ts";
import type { Verb } from "./card.ts";

const SLACK = ["--cp-url", "gw.example:7443", "--slack-channel", "C0123", "--identity-map=map.json"];

function read(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  return readSettings(args, { variables, workingFolder: "/srv" });
}

Deno.test("readSettings() has defaults for all but three options and accepts single dashes", () => {
  assert.deepEqual(
    read(["-cp-url=gw.example:7443", "-slack-channel", "C0123", "-identity-map", "/etc/map.json"]),
    {
      cpUrl: "https://gw.example:7443",
      cert: "/srv/pki/approver.crt",
      key: "/srv/pki/approver.key",
      ca: "/srv/pki/mtls_ca.crt",
      state: "/srv/state/approval-bridge.db",
      identityMap: "/etc/map.json",
      pollSeconds: 5,
      pageUrl: "https://gw.example:7443/ui/approvals/{id}",
      chat: { kind: "slack", channel: "C0123", apiUrl: "https://slack.com/api/" },
      logFormat: "auto",
      action: "run",
    },
  );
});

Deno.test("readSettings() prefers the command line to environment variables, and these to the defaults", () => {
  const variables = { BRIDGE_CP_URL: "https://a:1", BRIDGE_CERT: "/a.crt", BRIDGE_CA: "" };
  const { cpUrl, cert, ca, pollSeconds } = read([...SLACK, "--poll", "1m"], variables);
  assert.deepEqual([cpUrl, cert, ca, pollSeconds], [
    "https://gw.example:7443",
    "/a.crt",
    "/srv/pki/mtls_ca.crt",
    60,
  ]);
  assert.equal(read([...SLACK, "--poll", "0s"]).pollSeconds, 5);
  assert.equal(read(SLACK.slice(2), variables).cpUrl, "https://a:1");
});

Deno.test.each<{ name: string; args: readonly string[]; problem: RegExp }>([
  {
    name: "without an identity map",
    args: SLACK.slice(0, 4),
    problem: /pass --identity-map, .* or --no-identity-guard/,
  },
  {
    name: "with an identity map and the guard off",
    args: [...SLACK, "--no-identity-guard"],
    problem: /cannot use --identity-map with --no-identity-guard/,
  },
  {
    name: "without a control plane",
    args: SLACK.slice(2),
    problem: /pass --cp-url, or set the variable BRIDGE_CP_URL/,
  },
  {
    name: "without a channel",
    args: ["--cp-url=a:1", "--identity-map=m"],
    problem: /pass --slack-channel, or set/,
  },
  {
    name: "with a channel name in place of a channel ID",
    args: [...SLACK.slice(0, 3), "#ops", "--identity-map=m"],
    problem: /expected a channel ID/,
  },
  { name: "with an unknown option", args: [...SLACK, "--token=x"], problem: /unknown argument "--token=x"/ },
  { name: "with an argument", args: [...SLACK, "run"], problem: /unknown argument "run"/ },
  { name: "with an option twice", args: [...SLACK, "--cp-url=b:1"], problem: /--cp-url was passed twice/ },
  {
    name: "with an option without a value",
    args: [...SLACK, "--cert", "--check"],
    problem: /--cert needs a value/,
  },
  {
    name: "with an unknown chat",
    args: [...SLACK, "--chat", "irc"],
    problem: /expected slack or mattermost/,
  },
  {
    name: "with a chat URL without TLS",
    args: [...SLACK, "--slack-api-url=http://slack.com/api"],
    problem: /https/,
  },
  { name: "with a control plane URL without TLS", args: ["--cp-url=http://127.0.0.1:1"], problem: /https/ },
  {
    name: "with a page URL without {id}",
    args: [...SLACK, "--page-url=https://a/"],
    problem: /expected https:\/\/… with \{id\}/,
  },
  {
    name: "with a page URL that closes its link",
    args: [...SLACK, "--page-url=https://a/{id}|x>"],
    problem: /--page-url/,
  },
  { name: "with a bad duration", args: [...SLACK, "--poll", "soon"], problem: /Cannot read duration "soon"/ },
  // JavaScript timers of more than 24.8 days fire immediately.
  {
    name: "with a poll interval of a month",
    args: [...SLACK, "--poll", "30d"],
    problem: /--poll "30d": expected at most an hour/,
  },
])("readSettings() rejects a start $name", ({ args, problem }) => {
  assert.throws(() => read(args), problem);
});

Deno.test("readSettings() requires no options for --help and --version", () => {
  assert.equal(read(["--help"]).action, "help");
  assert.equal(read(["--version"]).action, "version");
});

Deno.test("bridgePermissions() allows only control plane and chat, and writes only to the state", () => {
  const set = bridgePermissions(read(SLACK));
  assert.deepEqual(set.net, ["*.slack.com:443", "gw.example:7443", "slack.com:443"]);
  assert.deepEqual(set.write, ["/srv/state/approval-bridge.db"]);
  assert.deepEqual(set.sys, ["osRelease"]);
  assert.ok(set.env?.includes("SLACK_BOT_TOKEN") && !set.env.includes("MATTERMOST_TOKEN"));
  const channel = "abcdefghijklmnopqrstuvwxyz";
  const mattermost = bridgePermissions(read([
    ...["--cp-url=gw.example:7443", "--no-identity-guard", "--chat=mattermost"],
    ...["--mattermost-url=https://chat.example", `--mattermost-channel=${channel}`],
  ]));
  assert.deepEqual(mattermost.net, ["chat.example:443", "gw.example:7443"]);
  assert.deepEqual([mattermost.sys, mattermost.env?.includes("SLACK_BOT_TOKEN")], [undefined, false]);
});

const MAP: IdentityMap = new Map([["U1", "ann@example.com"], ["U2", "broker-1"], ["U4", "cy"]]);

interface Row {
  readonly name: string;
  readonly user?: string;
  readonly verb?: Verb;
  readonly endUser?: string | undefined;
  readonly member?: Member;
  readonly identities?: IdentityMap;
  readonly objection?: RegExp;
}

const LEARN = { kind: "learn", ttlSeconds: 60 } as const;
const DENY = { kind: "deny" } as const;

const OWN = /requesters cannot approve their own requests/;

Deno.test.each<Row>([
  { name: "approve another person's request" },
  { name: "approve and learn from another person's request", verb: LEARN },
  { name: "approve their own request", endUser: "ann@example.com", objection: OWN },
  { name: "learn from their own request", endUser: "ann@example.com", verb: LEARN, objection: OWN },
  { name: "approve their own request in capitals", endUser: "ANN@EXAMPLE.COM", objection: OWN },
  { name: "approve their own request with a trailing dot", endUser: "ann@example.com.", objection: OWN },
  { name: "approve their own request in wide letters", endUser: "\uff41nn@example.com", objection: OWN },
  { name: "approve for the same name without a domain", endUser: "Ann", objection: /same name/ },
  {
    name: "approve for the same name in another domain",
    endUser: "ann@corp.example",
    objection: /same name/,
  },
  {
    name: "approve for the same name with a Windows domain",
    user: "U4",
    endUser: "CORP\\cy",
    objection: /same name/,
  },
  {
    name: "approve for the same name in a realm",
    user: "U4",
    endUser: "corp/cy",
    objection: /same name/,
  },
  { name: "approve for another name in the same domain", endUser: "anna@example.com" },
  { name: "deny a request of the same name", endUser: "ann", verb: DENY },
  { name: "approve as the broker that sends the request", user: "U2", objection: OWN },
  { name: "approve without an entry in the map", user: "U3", objection: /not in the bridge's identity map/ },
  {
    name: "approve with a user ID that is a prototype property",
    user: "constructor",
    objection: /not in the bridge's identity map/,
  },
  { name: "approve for an unknown requester", endUser: undefined, objection: /the requester is unknown/ },
  { name: "approve for a requester with an empty name", endUser: "", objection: /the requester is unknown/ },
  { name: "deny without an entry in the map", user: "U3", verb: DENY },
  { name: "deny their own request", endUser: "ann@example.com", verb: DENY },
  { name: "approve with the guard off", user: "U3", endUser: "", identities: undefined },
  { name: "deny as a program", member: "program", verb: DENY, objection: /programs/ },
  {
    name: "approve as a program with the identity guard off",
    member: "program",
    identities: undefined,
    objection: /programs/,
  },
  {
    name: "approve as a member of another workspace with the identity guard off",
    member: "outsider",
    identities: undefined,
    objection: /another/,
  },
  { name: "approve with a deactivated account", member: "gone", objection: /deactivated/ },
])("findObjection(): whether a user may $name", (row) => {
  const { user = "U1", verb = { kind: "approve" }, member = "person", objection } = row;
  const endUser = "endUser" in row ? row.endUser : "bob@example.com";
  const identities = "identities" in row ? row.identities : MAP;
  const found = findObjection({
    click: { user, verb },
    record: { caller: "Broker-1", end_user: endUser },
    member,
    identities,
  });
  if (objection === undefined) assert.equal(found, undefined);
  else assert.match(found ?? "", objection);
});

const USER = /^U[A-Z0-9]+$/;

Deno.test("parseIdentityMap() reads IDs and identities from a file with comments", () => {
  const map = parseIdentityMap(
    '{ "_comment": "who", "U1": "ann@example.com", /* x */ "U2": "Bob" }',
    "m.json",
    USER,
  );
  assert.deepEqual([...map], [["U1", "ann@example.com"], ["U2", "Bob"]]);
});

Deno.test.each<{ name: string; text: string; problem: RegExp }>([
  { name: "no entry", text: "{}", problem: /it is empty, so that no one could approve/ },
  { name: "incomplete JSON", text: '{"U1": "ann', problem: /Cannot load identity map "m\.json"/ },
  { name: "a list", text: '["U1"]', problem: /Cannot load identity map/ },
  { name: "a duplicate ID", text: '{"U1": "ann", "U1": "bob"}', problem: /Cannot load identity map/ },
  { name: "a name instead of an ID", text: '{"ann": "ann"}', problem: /"ann" is not a user ID of this chat/ },
  {
    name: "no identity",
    text: '{"U1": " "}',
    problem: /the identity of "U1" is empty, too long or contains invisible characters/,
  },
  {
    name: "an identity with invisible characters",
    text: '{"U1": "ann\\u200b"}',
    problem: /the identity of "U1" is empty, too long or contains invisible/,
  },
  { name: "an identity that is not a string", text: '{"U1": 1}', problem: /Cannot load identity map/ },
])("parseIdentityMap() rejects a map with $name", ({ text, problem }) => {
  assert.throws(() => parseIdentityMap(text, "m.json", USER), problem);
});
