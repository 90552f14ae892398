import assert from "node:assert/strict";
import { findAddrFault, findSourceAddressFault } from "./compile.ts";
import { accessKind, accessTitle, type ApprovalFacts, describeAccess, describeSpan } from "./request_text.ts";
import { assertLinearWork } from "../testing/linear_work.ts";
import fc from "fast-check";
import { RE2JS } from "re2js";
import { compilePattern } from "./command.ts";

Deno.test.each("10.0.0.1:22 web01:1 web-1.example.com:65535 [::1]:22 [2001:db8::1]:2222".split(" "))(
  "findAddrFault() accepts %s",
  (addr) => assert.equal(findAddrFault(addr), undefined),
);

Deno.test.each([
  ..."web01 web01: :22 web01:0 web01:65536 web01:ssh ::1:22 [::1] [zz]:22 [1.2.3.4]:22 u@h:22 h/x:22".split(
    " ",
  ),
  ...["", "a b:22", "a\n:22"],
])("findAddrFault() rejects '%s'", (addr) => assert.notEqual(findAddrFault(addr), undefined));

Deno.test.each(
  ("10.0.0.1 10.0.0.0/8 0.0.0.0/0 10.0.0.1/32 ::1 2001:db8::/32 ::/0 2001:db8::1/128 ::ffff:10.0.0.0/104 " +
    "10.0.0.1,192.168.0.0/16,::1").split(" "),
)("findSourceAddressFault() accepts %s", (list) => assert.equal(findSourceAddressFault(list), undefined));

Deno.test.each([
  ...("host 10.0.0 10.0.0.1/33 10.0.0.1/ 10.0.0.1/8 10.0.0.0/8/8 10.0.0.0/-1 ::1/129 2001:db8::1/32 " +
    "fe80::1%eth0 10.0.0.1, !10.0.0.1 10.0.0.*").split(" "),
  ...["", "10.0.0.1, 10.0.0.2"],
])(
  "findSourceAddressFault() rejects '%s'",
  (list) => assert.notEqual(findSourceAddressFault(list), undefined),
);

const FACTS: ApprovalFacts = { host: "web01", command: "systemctl restart nginx", account: "deploy" };

const UNSHOWN = "what is typed there is not shown to you";
const THROUGH = "to connect through web01 to other hosts; what passes through is not shown to you";

Deno.test.each<[name: string, facts: Partial<ApprovalFacts>, asked: string]>([
  ["a command", {}, "to run this command, as deploy, on web01"],
  ["a command without an account", { account: undefined }, "to run this command on web01"],
  ["an elevated command", { sudo: true, sudo_user: "db" }, "to run this command, as db, on web01"],
  [
    "a shell as root",
    { access: ["session:shell"], sudo: true, command: "", session_max_seconds: 1800 },
    `for an interactive shell, as root, on web01; ${UNSHOWN}; it may live 30 minutes`,
  ],
  [
    "a shell with a terminal, of a broker that does not say when it closes it",
    { access: ["session:pty", "pty"], life_seconds: 300 },
    `for an interactive shell, as deploy, on web01; ${UNSHOWN}; its certificate is valid for 5 minutes`,
  ],
  [
    "a session of a mode that nobody knows",
    { access: ["session"] },
    `for an interactive shell, as deploy, on web01; ${UNSHOWN}`,
  ],
  [
    "a session of commands",
    { access: ["session:exec"] },
    "for a session of commands, as deploy, on web01; the commands come later and are not shown to you",
  ],
  [
    "whether a command of a session may run",
    { access: ["session:exec"], dry_run: true, life_seconds: 300 },
    "whether this command may run, as deploy, on web01",
  ],
  [
    "a passage",
    { access: ["bastion", "session:shell"], life_seconds: 60 },
    `${THROUGH}; its certificate is valid for 1 minute`,
  ],
  [
    "whether a passage may be used on, and nothing is signed",
    { access: ["bastion", "session"], dry_run: true, life_seconds: 60 },
    THROUGH,
  ],
  ["a transfer", { access: ["file_transfer"] }, "to move a file with this command, as deploy, on web01"],
  [
    "names that hide text, written out",
    { host: "web\u202e01", account: "de\nploy" },
    String.raw`to run this command, as de\x0aploy, on web\u{202e}01`,
  ],
])("describeAccess() names %s", (_name, facts, asked) => {
  assert.equal(describeAccess({ ...FACTS, ...facts }), asked);
});

Deno.test("a session is described as a shell even if a command is named", () => {
  const access = ["session:shell"];
  assert.equal(accessKind({ access }), "shell");
  assert.equal(accessTitle(accessKind({ access })), "Interactive shell");
  assert.match(describeAccess({ ...FACTS, access, command: "ls" }), /interactive shell/);
});

Deno.test.each([
  { seconds: 1800, words: "30 minutes" },
  { seconds: 60, words: "1 minute" },
  { seconds: 3600, words: "1 hour" },
  { seconds: 90, words: "90 seconds" },
  { seconds: 1, words: "1 second" },
])("describeSpan() of $seconds seconds", ({ seconds, words }) => assert.equal(describeSpan(seconds), words));

Deno.test.each([
  { name: "searches anywhere", source: "b", text: "abc", found: true },
  { name: "is case sensitive", source: "B", text: "abc", found: false },
  { name: "matches ^ at the start of the text", source: "^b", text: "a\nb", found: false },
  { name: "matches $ at the end of the text", source: "a$", text: "a\n", found: false },
  { name: "lets . match all but a line feed", source: "^a.b$", text: "a\nb", found: false },
  { name: "lets . match one code point", source: "^.$", text: "😀", found: true },
  { name: "keeps \\s ASCII", source: "\\s", text: "\u00a0", found: false },
  { name: "keeps \\d ASCII", source: "\\d", text: "٣", found: false },
  { name: "keeps \\w ASCII", source: "\\w", text: "é", found: false },
  { name: "keeps \\b ASCII", source: "a\\b", text: "aé", found: true },
  { name: "knows inline flags", source: "(?i)^RM$", text: "rm", found: true },
  { name: "knows \\A and \\z", source: "\\Aps\\z", text: "ps", found: true },
  { name: "knows \\Q..\\E", source: "^\\Qa.b\\E$", text: "a.b", found: true },
  { name: "keeps \\Q..\\E literal", source: "^\\Qa.b\\E$", text: "axb", found: false },
  { name: "knows POSIX classes", source: "^[[:digit:]]+$", text: "12", found: true },
  { name: "knows Unicode classes", source: "^\\pL$", text: "é", found: true },
  { name: "knows named groups", source: "^(?P<n>a)$", text: "a", found: true },
  { name: "treats a lone surrogate as U+FFFD", source: "^\\x{FFFD}$", text: "\ud800", found: true },
])("compilePattern() $name", ({ source, text, found }) => {
  assert.equal(compilePattern(source).test(text), found);
});

Deno.test.each([
  { name: "lookahead", source: "a(?=b)" },
  { name: "negative lookahead", source: "a(?!b)" },
  { name: "lookbehind", source: "(?<=a)b" },
  { name: "negative lookbehind", source: "(?<!a)b" },
  { name: "backreference", source: "(a)\\1" },
  { name: "named backreference", source: "(?P<n>a)(?P=n)" },
  { name: "count above 1000", source: "a{1001}" },
  { name: "nested counts above 1000", source: "(a{500}){3}" },
  { name: "unknown letter escape", source: "\\y" },
  { name: "\\Z", source: "a\\Z" },
  { name: "\\u escape", source: "\\u0041" },
  { name: "possessive quantifier", source: "a++" },
  { name: "atomic group", source: "(?>a)" },
  { name: "comment group", source: "(?#a)" },
  { name: "unknown flag", source: "(?x)a" },
  { name: "unclosed group", source: "(a" },
  { name: "unclosed class", source: "[a" },
  { name: "unknown class", source: "\\p{Foo}" },
  { name: "trailing backslash", source: "a\\" },
  { name: "lone surrogate", source: "\ud800" },
  { name: "nesting of 20,000", source: "(".repeat(20_000) + ")".repeat(20_000) },
])("compilePattern() rejects $name", ({ source }) => {
  assert.throws(() => compilePattern(source), { name: "AppError", code: "invalid_config" });
});

Deno.test("compilePattern() finds the same matches as RE2 and a native RegExp", () => {
  const atom = fc.constantFrom(..."a b . [ab] [^a] ^ $ \\b \\s \\w (a|b) (?i:A) é".split(" "), "");
  const repeat = fc.constantFrom("", "*", "+", "?", "{2}", "{0,2}");
  const piece = fc.tuple(atom, repeat)
    .map(([each, times]) => (/[\^$b]$|^$/.test(each) ? each : each + times));
  const source = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(""));
  const text = fc.string({ unit: fc.constantFrom("a", "b", "A", " ", "é", "\n", "😀"), maxLength: 12 });
  fc.assert(
    fc.property(source, text, (pattern, input) => {
      assert.equal(compilePattern(pattern).test(input), RE2JS.compile(pattern).matcher(input).find());
      assert.equal(compilePattern(pattern).test(input), new RegExp(toNative(pattern), "u").test(input));
    }),
    { numRuns: 2000 },
  );
});

/** The differences between the syntaxes in the alphabet above. */
function toNative(pattern: string): string {
  return pattern.replaceAll(".", "[^\\n]");
}

Deno.test.each([
  "(a+)+$",
  "(a|aa)+$",
  "(x+x+)+y",
  "(.*)(.*)(.*)(.*)(.*)[0-9]$",
  "^(([a-z])+.)+[A-Z]([a-z])+$",
  "(a?){50}a{50}$",
  "[a-z]{500}[0-9]",
].map((source) => ({ source })))("compilePattern() $source takes linear time", ({ source }) => {
  const pattern = compilePattern(source);
  assertLinearWork((size) => pattern.test("a".repeat(size) + "!"), 64_000);
});
