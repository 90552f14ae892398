import assert from "node:assert/strict";
import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import { SAMPLE_NOW, sampleGrant, sampleGrants } from "../testing/sample_grant.ts";
import { LONGEST_GRANT_TTL_SECONDS } from "../wire/policy.ts";
import {
  clampWaiverTtl,
  findSameScope,
  type GatedCommand,
  type Grant,
  isWaived,
  unlearnable,
  waiverPattern,
  type WaiverScope,
  waiverScope,
} from "./grants.ts";
import { compilePattern } from "./command.ts";

const COMMAND = "systemctl restart nginx.service";

const GATED: GatedCommand = {
  host: "web01",
  caller: "broker-1",
  endUser: "alice",
  sudo: false,
  sudoUser: "",
  command: COMMAND,
  fileTransfer: false,
  contentSha256: "",
};

const CONTENT = { contentSha256: "aa".repeat(32) };
const WRITE: Partial<GatedCommand> = { fileTransfer: true, ...CONTENT };

Deno.test("waiverPattern() escapes only the special characters of a pattern", () => {
  assert.equal(
    waiverPattern("a.b+c*d?(e)[f]{g}^h$i|j\\k -/#\"'"),
    String.raw`^a\.b\+c\*d\?\(e\)\[f\]\{g\}\^h\$i\|j\\k -/#"'$`,
  );
});

Deno.test("waiverPattern() matches its command and no other", () => {
  const text = fc.string({ unit: anyCharacter(fc), maxLength: 40 });
  fc.assert(fc.property(text, text, (command, other) => {
    const pattern = compilePattern(waiverPattern(command));
    assert.equal(pattern.test(command), true);
    const others = [command + other, other + command, `${command}\n${other}`, `${command}\n`];
    for (const text of [other, ...others]) assert.equal(pattern.test(text), text === command);
  }));
});

Deno.test("waiverPattern() treats a lone surrogate as U+FFFD", () => {
  assert.equal(compilePattern(waiverPattern("echo \ud800")).test("echo \ufffd"), true);
});

Deno.test.each<[name: string, waiver: Partial<Grant>, gated: Partial<GatedCommand>, waived: boolean]>([
  ["the command it was learned from", {}, {}, true],
  ["another command", {}, { command: `${COMMAND} ` }, false],
  ["a longer command", {}, { command: `${COMMAND}; id` }, false],
  ["another before it", {}, { command: `id; ${COMMAND}` }, false],
  ["a command that the dot would match", {}, { command: COMMAND.replace(".", "x") }, false],
  ["another caller", {}, { caller: "broker-2" }, false],
  ["another end user", {}, { endUser: "bob" }, false],
  ["a request without end user", {}, { endUser: "" }, false],
  ["another host", {}, { host: "web02" }, false],
  ["the command elevated", {}, { sudo: true }, false],
  ["any end user when it has none", { endUser: "" }, {}, false],
  ["no end user when it has none", { endUser: "" }, { endUser: "" }, true],
  ["any caller when it has none", { caller: "" }, {}, false],
  ["the elevated command", { sudo: true, sudoUser: "root" }, { sudo: true, sudoUser: "root" }, true],
  ["root by no name (I25)", { sudo: true, sudoUser: "root" }, { sudo: true }, true],
  ["another account", { sudo: true, sudoUser: "root" }, { sudo: true, sudoUser: "db" }, false],
  ["the command not elevated", { sudo: true, sudoUser: "root" }, {}, false],
  ["an elevated command if the waiver is for one without sudo", { sudoUser: "root" }, { sudo: true }, false],
  ["a user that is ignored without sudo", {}, { sudoUser: "db" }, true],
  ["a file transfer of the same text", {}, WRITE, false],
  ["a file transfer without a digest", {}, { fileTransfer: true }, false],
  ["the same content", CONTENT, WRITE, true],
  ["other content of the same path", CONTENT, { ...WRITE, contentSha256: "bb".repeat(32) }, false],
  ["the command of a malformed transfer", CONTENT, CONTENT, false],
  ["anything once it has expired", { expiresAt: SAMPLE_NOW }, {}, false],
])(
  "a waiver applies to one command of one caller and end user, run one way (A4): %s",
  (_name, waiver, gated, waived) => {
    const live = sampleGrants({ ...waiverScope(GATED), ...waiver });
    assert.equal(isWaived(live, { ...GATED, ...gated }), waived);
  },
);

Deno.test.each<{ name: string; gated: Partial<GatedCommand>; learns: boolean }>([
  { name: "a command that is not a transfer", gated: {}, learns: true },
  { name: "a transfer with a digest", gated: WRITE, learns: true },
  { name: "a transfer without a digest", gated: { fileTransfer: true }, learns: false },
])("unlearnable(): $name", ({ gated, learns }) => {
  assert.equal(unlearnable({ ...GATED, ...gated }) === undefined, learns);
});

Deno.test.each<{ name: string; scope: Partial<WaiverScope>; same: boolean }>([
  { name: "the same scope", scope: {}, same: true },
  { name: "another host", scope: { host: "web02" }, same: false },
  { name: "another caller", scope: { caller: "b" }, same: false },
  { name: "another end user", scope: { endUser: "" }, same: false },
  { name: "elevation", scope: { sudo: true, sudoUser: "root" }, same: false },
  { name: "another command", scope: { waiveApproval: ["^id$"] }, same: false },
  { name: "more commands", scope: { waiveApproval: [waiverPattern(COMMAND), "^id$"] }, same: false },
  { name: "other content", scope: { contentSha256: "aa".repeat(32) }, same: false },
  { name: "an allow list", scope: { allow: ["^id$"] }, same: false },
])("findSameScope() with $name", ({ scope, same }) => {
  const { grants } = sampleGrants({ ...waiverScope(GATED), ...scope });
  assert.equal(findSameScope(grants, waiverScope(GATED)).length, same ? 1 : 0);
});

Deno.test("findSameScope() finds every waiver of the scope, including expired ones", () => {
  const { grants } = sampleGrants(waiverScope(GATED), { ...waiverScope(GATED), expiresAt: 0 }, sampleGrant());
  assert.deepEqual(findSameScope(grants, waiverScope(GATED)).map(({ id }) => id), ["grant-0", "grant-1"]);
});

Deno.test.each([
  { name: "no cap", seconds: 100, max: 0, ttl: 100 },
  { name: "a higher cap", seconds: 100, max: 200, ttl: 100 },
  { name: "a lower cap", seconds: 100, max: 50, ttl: 50 },
  { name: "no cap, for a time later than any date", seconds: 1e15, max: 0, ttl: LONGEST_GRANT_TTL_SECONDS },
  { name: "a cap later than any date", seconds: 1e15, max: 1e14, ttl: LONGEST_GRANT_TTL_SECONDS },
])("clampWaiverTtl() under $name", ({ seconds, max, ttl }) => {
  assert.equal(clampWaiverTtl(seconds, max), ttl);
});
