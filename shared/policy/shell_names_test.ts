import assert from "node:assert/strict";
import { parseCommand } from "./shell.ts";

const WRAPPERS =
  ("sh bash dash zsh ksh csh tcsh fish ash env eval exec command nice nohup timeout stdbuf xargs busybox " +
    "ionice chrt setarch linux32 linux64 catchsegv rlwrap script watch sudo su doas pkexec runuser sg . source python " +
    "python2 python3 perl ruby node nodejs php lua tclsh awk gawk nawk mawk setsid trap builtin chroot unshare nsenter " +
    "systemd-run flock strace parallel toybox mksh rbash pwsh").split(" ");

Deno.test.each(WRAPPERS.map((name) => ({ name })))("parseCommand() refuses the wrapper $name", ({ name }) => {
  assert.deepEqual(parseCommand(`${name} x`), {
    kind: "refused",
    reason: `program "${name}" that runs another command`,
  });
});

Deno.test.each([
  "/usr/bin/time x",
  "'/bin//sh' -c x",
  "/bin/sh/ -c x",
  "r; /bin/bash",
  "'b'ash -c x",
  "BASH -c x",
  "ps | xargs rm",
  "python3.12 x",
  "python2.7 x",
  "python3.11-dbg x",
  "perl5.36.0 x",
  "perl5.36-x86_64-linux-gnu x",
  "ruby3.2 x",
  "node18 x",
  "php8.2 x",
  "lua5.4 x",
  "tclsh8.6 x",
  "zsh-5.9 -c x",
  "ksh93 -c x",
  "gawk-5.2.1 x",
  "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
  "find . -exec rm x",
  "find . -execdir rm x",
  "find . -ok rm x",
  "find . '-okdir' rm x",
  "/usr/bin/find . -name x -exec rm x",
  "jobs -x rm x",
  "compgen -C rm",
].map((text) => ({ text })))("parseCommand() refuses the hidden command in $text", ({ text }) => {
  const parsed = parseCommand(text);
  assert(parsed.kind === "refused");
  assert.match(parsed.reason, /that runs another command$/);
});

Deno.test.each([
  "export A",
  "export A=b",
  "'export' A=b",
  "readonly A=b",
  "declare A=b",
  "typeset A=b",
  "local A=b",
  "nameref A=b",
  "let A=1",
  "unset PATH",
  "read A",
  "set -- a",
  "getopts a b",
  "alias ls=rm",
  "unalias ls",
  "hash -p /x ls",
  "enable -f x y",
  "mapfile A",
  "readarray A",
  "shopt -s x",
  "shift",
  "printf -v A x",
  "printf '-vA' x",
  "wait -p A",
  "wait -np A",
  "test -v 'a'",
  "test -v A",
  "'[' -v A ']'",
].map((text) => ({ text })))("parseCommand() refuses the change of the environment in $text", ({ text }) => {
  const parsed = parseCommand(text);
  assert(parsed.kind === "refused");
  assert.match(parsed.reason, /that changes the shell's environment$/);
});

Deno.test.each([
  "python3-config x",
  "php-fpm x",
  "find . -name x -delete",
  "printf '%s' -v",
  "test -f x",
  "wait 1",
  "bashful x",
  "envoy",
  "/opt/export x",
  "timeoutd",
  "lsof -p 1",
  "nodetool status",
  "perlbench",
  "systemctl restart sudo",
  "cat bash",
].map((text) => ({ text })))("parseCommand() accepts $text", ({ text }) => {
  assert.equal(parseCommand(text).kind, "commands");
});
