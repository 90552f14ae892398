import assert from "node:assert/strict";
import { type AskedFacts, askedKind, askedTitle, describeAsked, describeSpan } from "./words.ts";

const FACTS: AskedFacts = { host: "web01", command: "systemctl restart nginx", account: "deploy" };

Deno.test.each<{ name: string; facts: Partial<AskedFacts>; asked: string }>([
  { name: "a command", facts: {}, asked: "to run this command, as deploy, on web01" },
  {
    name: "a command whose account nobody said",
    facts: { account: undefined },
    asked: "to run this command on web01",
  },
  {
    name: "an elevated command",
    facts: { sudo: true, sudo_user: "db" },
    asked: "to run this command, as db, on web01",
  },
  {
    name: "a shell as root",
    facts: { access: ["session:shell"], sudo: true, command: "", session_max_seconds: 1800 },
    asked:
      "for an interactive shell, as root, on web01; what is typed there is not shown to you; it may live 30 minutes",
  },
  {
    name: "a shell with a terminal, of a broker that does not say when it closes it",
    facts: { access: ["session:pty", "pty"], life_seconds: 300 },
    asked:
      "for an interactive shell, as deploy, on web01; what is typed there is not shown to you; its certificate lives 5 minutes",
  },
  {
    name: "a session of a mode that nobody knows",
    facts: { access: ["session"] },
    asked: "for an interactive shell, as deploy, on web01; what is typed there is not shown to you",
  },
  {
    name: "a session of commands",
    facts: { access: ["session:exec"] },
    asked: "for a session of commands, as deploy, on web01; the commands come later and are not shown to you",
  },
  {
    name: "whether a command of a session may run",
    facts: { access: ["session:exec"], dry_run: true, life_seconds: 300 },
    asked: "whether this command may run, as deploy, on web01",
  },
  {
    name: "a passage",
    facts: { access: ["bastion", "session:shell"], life_seconds: 60 },
    asked:
      "to connect through web01 to other hosts; what passes through is not shown to you; its certificate lives 1 minute",
  },
  {
    name: "whether a passage may be used on, and nothing is signed",
    facts: { access: ["bastion", "session"], dry_run: true, life_seconds: 60 },
    asked: "to connect through web01 to other hosts; what passes through is not shown to you",
  },
  {
    name: "a transfer",
    facts: { access: ["file_transfer"] },
    asked: "to move a file with this command, as deploy, on web01",
  },
  {
    name: "names that hide text, written out",
    facts: { host: "web\u202e01", account: "de\nploy" },
    asked: String.raw`to run this command, as de\x0aploy, on web\u{202e}01`,
  },
])("describeAsked() names $name", ({ facts, asked }) => {
  assert.equal(describeAsked({ ...FACTS, ...facts }), asked);
});

Deno.test("a session is a shell whatever command is named with it: its certificate is locked to none", () => {
  const access = ["session:shell"];
  assert.equal(askedKind({ access }), "shell");
  assert.equal(askedTitle(askedKind({ access })), "Interactive shell");
  assert.match(describeAsked({ ...FACTS, access, command: "ls" }), /interactive shell/);
});

Deno.test.each([[1800, "30 minutes"], [60, "1 minute"], [3600, "1 hour"], [90, "90 seconds"], [
  1,
  "1 second",
]])(
  "describeSpan() of %d seconds",
  (seconds, words) => assert.equal(describeSpan(Number(seconds)), words),
);
