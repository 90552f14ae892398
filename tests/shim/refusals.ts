import { Buffer } from "node:buffer";
import { FOREIGN_KEY, FORMATS, freshFields, secondsFromNow, SIGNER_KEY } from "./installed_shim.ts";
import { HOST_CASES, type RefusedCase } from "./refusals_of_hosts.ts";
import { membersV1, sealMembers, sealMessage } from "./envelopes.ts";

const MALFORMED = "the envelope is malformed (is the broker too old to pass envelopes on?)";
const FORGED = "the signature is not of a pinned key";
const NO_ENVELOPE = "no envelope: this host runs only commands that the signer has sealed";
const EXPIRED = "the envelope has expired";
const TOO_FAR = "the envelope expires too far in the future: does a clock go wrong?";
const BAD_NONCE = "the nonce is malformed";

/** A message of format v2, signed with the signer's key. */
function message(...parts: readonly string[]): string {
  return sealMessage(parts.join("\n"), SIGNER_KEY);
}

/** The members of a valid envelope of format v1, with a change. */
function members(change: (all: [string, string][]) => [string, string][]): string {
  return sealMembers(change(membersV1(freshFields(), SIGNER_KEY).map(([name, value]) => [name, value])));
}

/** The JSON of a valid envelope of format v1, with a change. */
function json(change: (text: string) => string): string {
  const text = Buffer.from(sealMembers(membersV1(freshFields(), SIGNER_KEY)), "base64url").toString();
  return Buffer.from(change(text)).toString("base64url");
}

function flipped(envelope: string, at: number): string {
  const index = at < 0 ? envelope.length + at : at;
  return `${envelope.slice(0, index)}${envelope[index] === "A" ? "B" : "A"}${envelope.slice(index + 1)}`;
}

const INPUT: readonly RefusedCase[] = [
  {
    name: "no envelope, as in the request of a login shell",
    envelope: () => undefined,
    reason: NO_ENVELOPE,
  },
  { name: "an empty envelope", envelope: () => "", reason: NO_ENVELOPE },
  { name: "spaces in place of an envelope", envelope: () => " \t\n ", reason: NO_ENVELOPE },
  { name: "a plain command", envelope: () => "uptime", reason: MALFORMED },
  { name: "a plain command with spaces", envelope: () => "cat /etc/passwd", reason: MALFORMED },
  { name: "a file server's name", envelope: () => "/usr/lib/openssh/sftp-server", reason: MALFORMED },
  { name: "not base64", envelope: (shim) => `${shim.seal()}!`, reason: MALFORMED },
  { name: "standard base64 padding", envelope: (shim) => `${shim.seal()}=`, reason: MALFORMED },
  { name: "an impossible base64 length", envelope: () => "AAAAA", reason: MALFORMED },
  {
    name: "bytes that are not UTF-8 in place of an envelope",
    envelope: () => undefined,
    options: { before: `export SSH_ORIGINAL_COMMAND="$(printf '\\377\\376AA.BB')"` },
    reason: MALFORMED,
  },
  { name: "a pattern of file names", envelope: () => "*", reason: MALFORMED },
  { name: "two envelopes", envelope: (shim) => `${shim.seal()} ${shim.seal()}`, reason: MALFORMED },
  { name: "a word after the envelope", envelope: (shim) => `${shim.seal()}\nid`, reason: MALFORMED },
  { name: "ten words after it", envelope: (shim) => `${shim.seal()}${" a".repeat(10)}`, reason: MALFORMED },
  {
    name: "an envelope of unsigned JSON",
    only: "v1",
    envelope: () => Buffer.from("{}").toString("base64url"),
    reason: MALFORMED,
  },
  {
    name: "an envelope of the other format",
    only: "v1",
    envelope: () => FORMATS.v2.seal(freshFields(), SIGNER_KEY),
    reason: MALFORMED,
  },
  {
    name: "an envelope of the other format",
    only: "v2",
    envelope: () => FORMATS.v1.seal(freshFields(), SIGNER_KEY),
    reason: MALFORMED,
  },
  {
    name: "no signature",
    only: "v2",
    envelope: (shim) => shim.seal().replace(/\..*/, ""),
    reason: MALFORMED,
  },
  {
    name: "an empty signature",
    only: "v2",
    envelope: (shim) => shim.seal().replace(/\..*/, "."),
    reason: MALFORMED,
  },
  {
    name: "an empty message",
    only: "v2",
    envelope: (shim) => shim.seal().replace(/.*\./, "."),
    reason: FORGED,
  },
  { name: "three parts", only: "v2", envelope: (shim) => `${shim.seal()}.AAAA`, reason: MALFORMED },
  {
    name: "a message with too few lines",
    only: "v2",
    envelope: () => message("00", "web01", "1"),
    reason: MALFORMED,
  },
  { name: "a message of one line", only: "v2", envelope: () => message("web01"), reason: MALFORMED },
];

const JSON_FORM: readonly RefusedCase[] = [
  {
    name: "members in another order",
    envelope: () => members(([n, h, c, e, s]) => [h!, n!, c!, e!, s!]),
    reason: MALFORMED,
  },
  { name: "the signature first", envelope: () => members((all) => all.toReversed()), reason: MALFORMED },
  {
    name: "a duplicate member",
    envelope: () => members(([n, h, c, e, s]) => [n!, h!, c!, ["c", '"id"'], e!, s!]),
    reason: MALFORMED,
  },
  {
    name: "a duplicate member at the end",
    envelope: () => members((all) => [...all, ["c", '"id"']]),
    reason: MALFORMED,
  },
  { name: "an additional member", envelope: () => members((all) => [...all, ["x", "1"]]), reason: MALFORMED },
  { name: "a missing member", envelope: () => members((all) => all.slice(1)), reason: MALFORMED },
  {
    name: "a member name with an escape",
    envelope: () => json((text) => text.replace('"c":', '"\\u0063":')),
    reason: MALFORMED,
  },
  {
    name: "a member name in capitals",
    envelope: () => json((text) => text.replace('"c":', '"C":')),
    reason: MALFORMED,
  },
  { name: "trailing bytes", envelope: () => json((text) => `${text}{}`), reason: MALFORMED },
  { name: "a list around the envelope", envelope: () => json((text) => `[${text}]`), reason: MALFORMED },
  {
    name: "a number in place of a command",
    envelope: () => json((text) => text.replace(/"c":"[^"]*"/, '"c":1')),
    reason: MALFORMED,
  },
  {
    name: "null in place of a command",
    envelope: () => json((text) => text.replace(/"c":"[^"]*"/, '"c":null')),
    reason: MALFORMED,
  },
  {
    name: "a string in place of an expiry",
    envelope: () => json((text) => text.replace(/"e":(\d+)/, '"e":"$1"')),
    reason: MALFORMED,
  },
  {
    name: "an expiry with an exponent",
    envelope: () => json((text) => text.replace(/"e":(\d+)/, '"e":$1e0')),
    reason: MALFORMED,
  },
  {
    name: "bytes that are not UTF-8",
    envelope: () => Buffer.from('{"n":"\xff"}', "latin1").toString("base64url"),
    reason: MALFORMED,
  },
  {
    name: "half a surrogate pair",
    envelope: () => json((text) => text.replace("echo", "\\ud800")),
    reason: MALFORMED,
  },
  {
    name: "a signature that is too short",
    envelope: () => json((text) => text.replace(/"s":"..../, '"s":"')),
    reason: MALFORMED,
  },
].map((row) => ({ ...row, only: "v1" }));

const SIGNATURE: readonly RefusedCase[] = [
  { name: "an envelope of a foreign key", envelope: (shim) => shim.seal({}, FOREIGN_KEY), reason: FORGED },
  {
    name: "a changed message",
    only: "v2",
    envelope: (shim) => flipped(shim.seal(), 12),
    reason: FORGED,
  },
  {
    name: "a changed command",
    only: "v1",
    envelope: () => json((text) => text.replace("echo", "exec")),
    reason: FORGED,
  },
  { name: "a changed signature", only: "v2", envelope: (shim) => flipped(shim.seal(), -20), reason: FORGED },
  {
    name: "a foreign key before another host",
    envelope: (shim) => shim.seal({ host: "web02" }, FOREIGN_KEY),
    reason: FORGED,
  },
  {
    name: "another signature domain",
    only: "v1",
    envelope: () => sealMembers(membersV1(freshFields(), SIGNER_KEY, "gateway-sealed-exec-v2")),
    reason: FORGED,
  },
  {
    name: "another signature namespace",
    only: "v2",
    envelope: () => sealMessage(messageNow(), SIGNER_KEY, "gateway-krl-v1"),
    reason: FORGED,
  },
  {
    name: "the signature of another message",
    only: "v2",
    envelope: (shim) => `${shim.seal().replace(/\..*/, "")}.${shim.seal().replace(/.*\./, "")}`,
    reason: FORGED,
  },
  {
    name: "a signature in an unknown format",
    only: "v2",
    envelope: (shim) => shim.seal().replace(/\..*/, ".AAAA"),
    reason: FORGED,
  },
  {
    name: "a NUL inside a signed command",
    only: "v2",
    envelope: (shim) => shim.seal({ command: "echo do\0ne" }),
    reason: FORGED,
  },
  {
    name: "a NUL at the end of a signed command",
    only: "v2",
    envelope: (shim) => shim.seal({ command: "echo done\0" }),
    reason: FORGED,
  },
  {
    name: "a NUL inside a signed command",
    only: "v1",
    envelope: (shim) => shim.seal({ command: "echo do\0ne" }),
    reason: "the command has a NUL",
  },
];

function messageNow(): string {
  const { nonce, host, expiry, command } = freshFields();
  return [nonce, host, expiry, command].join("\n");
}

const FIELDS: readonly RefusedCase[] = [
  {
    name: "an envelope for another host",
    envelope: (shim) => shim.seal({ host: "web02" }),
    reason: "the envelope is for another host",
  },
  {
    name: "an envelope for a host with a longer name",
    envelope: (shim) => shim.seal({ host: "web011" }),
    reason: "the envelope is for another host",
  },
  {
    name: "an empty host",
    envelope: (shim) => shim.seal({ host: "" }),
    reason: "the envelope is for another host",
  },
  {
    name: "a pattern in place of a host",
    envelope: (shim) => shim.seal({ host: "*" }),
    reason: "the envelope is for another host",
  },
  {
    name: "an empty nonce",
    envelope: (shim) => shim.seal({ nonce: "" }),
    reason: "the envelope has no nonce",
  },
  {
    name: "an empty command",
    envelope: (shim) => shim.seal({ command: "" }),
    reason: "the envelope has no command",
  },
  {
    name: "an expired envelope",
    envelope: (shim) => shim.seal({ expiry: secondsFromNow(-2) }),
    reason: EXPIRED,
  },
  { name: "the expiry 1", envelope: (shim) => shim.seal({ expiry: "1" }), reason: EXPIRED },
  {
    name: "an expiry ten minutes ahead",
    envelope: (shim) => shim.seal({ expiry: secondsFromNow(600) }),
    reason: TOO_FAR,
  },
  {
    name: "an expiry beyond 32 bits",
    envelope: (shim) => shim.seal({ expiry: "4294967297" }),
    reason: TOO_FAR,
  },
  {
    name: "an expiry beyond 64 bits",
    envelope: (shim) => shim.seal({ expiry: "18446744073709551617" }),
    reason: TOO_FAR,
  },
  {
    name: "an expiry of 400 digits",
    envelope: (shim) => shim.seal({ expiry: "9".repeat(400) }),
    reason: TOO_FAR,
  },
  {
    name: "a nonce with capital letters",
    envelope: (shim) => shim.seal({ nonce: "A".repeat(32) }),
    reason: BAD_NONCE,
  },
  {
    name: "a nonce of 15 digits",
    envelope: (shim) => shim.seal({ nonce: "a".repeat(15) }),
    reason: BAD_NONCE,
  },
  {
    name: "a nonce of 65 digits",
    envelope: (shim) => shim.seal({ nonce: "a".repeat(65) }),
    reason: BAD_NONCE,
  },
  {
    name: "a path in place of a nonce",
    envelope: (shim) => shim.seal({ nonce: "../../../../etc/cron.d/aaaa" }),
    reason: BAD_NONCE,
  },
];

const EXPIRY_FORM: readonly RefusedCase[] = [
  { name: "an expiry with a leading zero", expiry: `0${secondsFromNow(30)}` },
  { name: "an octal expiry", expiry: "08" },
  { name: "an empty expiry", expiry: "" },
  { name: "a negative expiry", expiry: "-1" },
  { name: "an expiry with a sign", expiry: `+${secondsFromNow(30)}` },
  { name: "a fraction", expiry: `${secondsFromNow(30)}.5` },
  { name: "a hexadecimal expiry", expiry: "0x7fffffff" },
  { name: "a variable in place of an expiry", expiry: "now" },
  { name: "an assignment in place of an expiry", expiry: "now=1" },
].flatMap(({ name, expiry }): RefusedCase[] => [
  { name, only: "v1", envelope: (shim) => shim.seal({ expiry }), reason: MALFORMED },
  { name, only: "v2", envelope: (shim) => shim.seal({ expiry }), reason: "the expiry is not a time" },
]);

/** All cases that one or both shims must reject without marking the nonce as used. */
export const REFUSED_CASES: readonly RefusedCase[] = [
  ...INPUT,
  ...JSON_FORM,
  ...SIGNATURE,
  ...FIELDS,
  ...EXPIRY_FORM,
  ...HOST_CASES,
];
