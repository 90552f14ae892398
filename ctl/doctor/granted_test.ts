import assert from "node:assert/strict";
import { compareGranted, readEmbedded, readFlags } from "./granted.ts";

const BASE = ["--no-prompt", "--cached-only", "--no-code-cache", "--v8-flags=--max-semi-space-size=2"];
const DERIVED = [
  ...BASE,
  "--allow-read=/etc/gw/signer.json,/var/log/gw",
  "--allow-write=/var/log/gw",
  "--deny-write=/var/log/gw/head",
  "--allow-net=127.0.0.1:9443",
  "--ignore-env",
];
const but = (from: string, ...to: string[]) => DERIVED.flatMap((word) => word.startsWith(from) ? to : [word]);

Deno.test.each<{ name: string; words: string[]; more?: string[]; less?: string[] }>([
  { name: "exactly what is derived", words: DERIVED },
  { name: "the same in another order", words: DERIVED.toReversed() },
  {
    name: "the same by short names, in two lists",
    words: but("--allow-read", "-R=/var/log/gw", "-R=/etc/gw/signer.json"),
  },
  { name: "what only says how it runs", words: [...DERIVED, "-q", "--no-lock", "--config /x/deno.json"] },
  {
    name: "a file in a folder that it may read",
    words: but("--allow-read", "--allow-read=/etc/gw/signer.json,/var/log/gw,/var/log/gw/audit.log"),
  },
  { name: "everything", words: [...BASE, "-A"], more: ["--allow-all", "no --deny-write=/var/log/gw/head"] },
  { name: "everything, by its long name", words: [...DERIVED, "--allow-all"], more: ["--allow-all"] },
  { name: "each file", words: but("--allow-read", "--allow-read"), more: ["--allow-read"] },
  { name: "each file after some", words: [...DERIVED, "--allow-read"], more: ["--allow-read"] },
  {
    name: "each file before some",
    words: but("--allow-read", "--allow-read", "--allow-read=/var/log/gw"),
    more: ["--allow-read"],
  },
  { name: "the root", words: [...DERIVED, "--allow-read=/"], more: ["--allow-read=/"] },
  { name: "a folder above", words: [...DERIVED, "-R=/var/log"], more: ["--allow-read=/var/log"] },
  {
    name: "a folder of a longer name",
    words: [...DERIVED, "--allow-write=/var/log/gw2"],
    more: ["--allow-write=/var/log/gw2"],
  },
  {
    name: "a path that climbs out of a folder",
    words: [...DERIVED, "--allow-read=/var/log/gw/../../../etc"],
    more: ["--allow-read=/var/log/gw/../../../etc"],
  },
  { name: "a relative path", words: [...DERIVED, "--allow-read=gw"], more: ["--allow-read=gw"] },
  { name: "each address", words: but("--allow-net", "-N"), more: ["--allow-net"] },
  {
    name: "a host with all its ports",
    words: [...DERIVED, "--allow-net=127.0.0.1"],
    more: ["--allow-net=127.0.0.1"],
  },
  {
    name: "many addresses, of which some are shown",
    words: [...DERIVED, "--allow-net=a:1,b:1,c:1,d:1,e:1"],
    more: ["--allow-net=a:1,b:1,c:1 and 2 more"],
  },
  { name: "programs", words: [...DERIVED, "--allow-run=sh"], more: ["--allow-run=sh"] },
  { name: "libraries", words: [...DERIVED, "--allow-ffi"], more: ["--allow-ffi"] },
  { name: "the environment", words: but("--ignore-env", "-E"), more: ["--allow-env"] },
  { name: "what it is denied otherwise", words: but("--deny"), more: ["no --deny-write=/var/log/gw/head"] },
  { name: "a debugger", words: [...DERIVED, "--inspect=0.0.0.0:9229"], more: ["--inspect=0.0.0.0:9229"] },
  { name: "short names in one word", words: [...DERIVED, "-RW"], more: ["-RW"] },
  { name: "questions at a terminal", words: but("--no-prompt"), more: ["no --no-prompt"] },
  { name: "code of the network", words: but("--cached-only"), more: ["no --cached-only"] },
  {
    name: "one file less",
    words: but("--allow-read", "--allow-read=/var/log/gw"),
    less: ["--allow-read=/etc/gw/signer.json"],
  },
  { name: "no network", words: but("--allow-net"), less: ["--allow-net=127.0.0.1:9443"] },
  { name: "a denial more", words: [...DERIVED, "--deny-net=10.0.0.1"], less: ["--deny-net=10.0.0.1"] },
  {
    name: "another address",
    words: but("--allow-net", "--allow-net=127.0.0.1:1"),
    more: ["--allow-net=127.0.0.1:1"],
    less: ["--allow-net=127.0.0.1:9443"],
  },
])("compareGranted() of a process that has $name", ({ words, more = [], less = [] }) => {
  assert.deepEqual(compareGranted(readFlags(words), readFlags(DERIVED)), { more, less });
});

Deno.test("compareGranted() bounds what a broker that may connect anywhere has left", () => {
  const anywhere = readFlags([...BASE, "--allow-net"]);
  assert.deepEqual(compareGranted(anywhere, anywhere), { more: [], less: [] });
  const one = readFlags([...BASE, "--allow-net=10.0.0.1:22"]);
  assert.deepEqual(compareGranted(one, anywhere), { more: [], less: ["--allow-net"] });
});

Deno.test("readFlags() tells of a set that is elsewhere", () => {
  assert.equal(readFlags(["-P=signer"]).set, "signer");
  assert.equal(readFlags(["--permission-set"]).set, "default");
  assert.equal(readFlags(DERIVED).set, undefined);
});

Deno.test("readEmbedded() reads the permissions of an executable, the last of them, and of nothing else any", () => {
  const text = (json: string) => new TextEncoder().encode(`\0\0ELF"permissions":{"allow_env"x${json}\0\0`);
  const found = readEmbedded(text(
    '"permissions":{"allow_env":null,"allow_read":["/etc/gw/signer.json"],"allow_net":[],"allow_run":null,"prompt":false}',
  ));
  assert.deepEqual([...found?.flags ?? []], [
    ["--no-prompt", "all"],
    ["--cached-only", "all"],
    ["--allow-read", ["/etc/gw/signer.json"]],
    ["--allow-net", "all"],
  ]);
  const asks = readEmbedded(text('"permissions":{"allow_env":null,"allow_all":true,"prompt":true}'));
  assert.deepEqual([...asks?.flags.keys() ?? []], ["--cached-only", "--allow-all"]);
  for (const other of [new Uint8Array(0), new TextEncoder().encode("ELF"), text("")]) {
    assert.equal(readEmbedded(other), undefined);
  }
});
