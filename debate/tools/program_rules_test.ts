import assert from "node:assert/strict";
import fc from "fast-check";
import { GREP_EXCLUSIONS } from "../context/secret_files.ts";
import { ToolFailure } from "./run_program.ts";
import { checkCommand, PROGRAM_RULES } from "./program_rules.ts";
import { splitCommand } from "./argv.ts";

/** A checked command, or the reason of its rejection. */
function attempt(text: string) {
  try {
    return checkCommand(text);
  } catch (error) {
    assert.ok(error instanceof ToolFailure);
    return error.message;
  }
}

function argv(text: string): readonly string[] | string {
  const checked = attempt(text);
  if (typeof checked === "string") return checked;
  return [checked.program, ...checked.args.map(({ kind, text }) => kind === "path" ? `<${text}>` : text)];
}

Deno.test.each([
  { text: "ps aux --sort=-rss", runs: ["ps", "--sort=-rss", "aux"] },
  { text: "ps -eo pid,cmd --sort -pcpu", runs: ["ps", "-e", "-o", "pid,cmd", "--sort=-pcpu"] },
  { text: "ss -tulpn", runs: ["ss", "-t", "-u", "-l", "-p", "-n"] },
  { text: "ss -t state established", runs: ["ss", "-t", "state", "established"] },
  { text: "df -h /", runs: ["df", "-h", "/"] },
  { text: "du -sh . /var/log", runs: ["du", "-s", "-h", "<.>", "</var/log>"] },
  { text: "free -m", runs: ["free", "-m"] },
  { text: "uname -a", runs: ["uname", "-a"] },
  { text: "date '+%F %T'", runs: ["date", "+%F %T"] },
  { text: "tail -20 app.log", runs: ["tail", "-n", "20", "<app.log>"] },
  { text: "tail -n5 -- app.log", runs: ["tail", "-n", "5", "<app.log>"] },
  { text: "head --lines=3 a b", runs: ["head", "--lines=3", "<a>", "<b>"] },
  {
    text: "grep -rin 'out of memory' logs",
    runs: ["grep", "-D", "skip", "-r", "-i", "-n", ...GREP_EXCLUSIONS, "out of memory", "<logs>"],
  },
  {
    text: "grep --recursive x . --include=.env",
    runs: ["grep", "-D", "skip", "--recursive", "--include=.env", ...GREP_EXCLUSIONS, "x", "<.>"],
  },
  {
    text: "grep -A 3 x f --include='*.log'",
    runs: ["grep", "-D", "skip", "-A", "3", "--include=*.log", "x", "<f>"],
  },
  {
    text: "find . -name '*.log' -mtime -1 -type f",
    runs: ["find", "<.>", "-name", "*.log", "-mtime", "-1", "-type", "f"],
  },
  { text: "find -maxdepth 2 src", runs: ["find", "<src>", "-maxdepth", "2"] },
  {
    text: "journalctl -u nginx -p err",
    runs: ["journalctl", "--no-pager", "-n", "200", "-u", "nginx", "-p", "err"],
  },
  { text: "journalctl -n 10", runs: ["journalctl", "--no-pager", "-n", "10"] },
  { text: "systemctl status nginx.service", runs: ["systemctl", "status", "--no-pager", "nginx.service"] },
  {
    text: "systemctl show -p ActiveState,MemoryCurrent nginx",
    runs: ["systemctl", "show", "--no-pager", "-p", "ActiveState,MemoryCurrent", "nginx"],
  },
  { text: "docker logs --tail 5 web", runs: ["docker", "logs", "--tail=5", "web"] },
  { text: "docker logs web", runs: ["docker", "logs", "--tail", "200", "web"] },
  { text: "docker stats web", runs: ["docker", "stats", "--no-stream", "web"] },
  { text: "ip -br addr show dev eth0", runs: ["ip", "-br", "addr", "show", "dev", "eth0"] },
  { text: "ip route get 192.0.2.1", runs: ["ip", "route", "get", "192.0.2.1"] },
  { text: "ping example.com", runs: ["ping", "-c", "3", "example.com"] },
  { text: "ping -c 2 example.com", runs: ["ping", "-c", "2", "example.com"] },
  {
    text: "dig +short example.com MX @192.0.2.53",
    runs: ["dig", "+short", "example.com", "MX", "@192.0.2.53"],
  },
  { text: "getent hosts db", runs: ["getent", "hosts", "db"] },
  { text: "vmstat 1 5", runs: ["vmstat", "1", "5"] },
  { text: "sysctl -n net.core.somaxconn", runs: ["sysctl", "-n", "net.core.somaxconn"] },
].map((row) => ({ ...row, name: row.text })))("checkCommand() rewrites $name", ({ text, runs }) => {
  assert.deepEqual(argv(text), runs);
});

/** Rejected arguments of each program, separated by " | ". */
const REFUSED: Readonly<Record<string, string>> = {
  zgrep: "x f | -r KEY .",
  rg: "KEY | -uu --hidden KEY .",
  tar: "cf - .ssh | -xOf backup.tar",
  find: ". -name .env -exec cat {} ; | . -delete | . -exec id {} + | . -execdir id | . -ok id | " +
    ". -fprint /tmp/x | . -fls /tmp/x | . -files0-from x | -L . | . -newer /etc/passwd",
  grep: "-d recurse KEY . | --directories=recurse KEY . | --dereference-recursive KEY . | " +
    "--exclude-from=x KEY . | -f /etc/shadow x f | --file=/etc/shadow x f | -e x /etc/shadow | -R x . | " +
    "-P '(a+)+$' f",
  tail: "-f x | -F x | --follow x | --follow=name x | --retry x | -n -f x",
  du: "--files0-from=x | --exclude-from=x",
  date: "-s 2020-01-01 | --set=2020-01-01 | -f /etc/shadow | 010100002020",
  hostname: "evil | -F /etc/shadow",
  ss: "-K dst 1.2.3.4 | -D /tmp/x | -F /etc/shadow | --diag=/tmp/x",
  dmesg: "-C | -c | -w | -n 1 | -F /etc/shadow",
  journalctl: "-f | --follow | --vacuum-size=1 | --rotate | --file=/etc/shadow | -D /etc | --root=/ | " +
    "-M host | -o verbose | -o json",
  systemctl: "restart nginx | -H root@host status | status -H root@host |  | status -- -Hroot@h | " +
    "show -p Environment nginx | show --property=ActiveState,Environment nginx | show -p EnvironmentFiles nginx | " +
    "show -p ExecStart nginx | show -p environment nginx | show -p LoadCredential nginx | show-environment | " +
    "show -P Environment nginx | cat nginx",
  docker:
    "inspect web | inspect -f '{{.Config.Env}}' web | container inspect web | exec web id | run -v /:/h web | -H tcp://h ps | ps -H tcp://h | logs -f web | " +
    "stats --no-stream=false",
  ip: "addr add 10.0.0.1/8 dev lo | link set lo down | -batch x | -b x | netns exec x id | " +
    "-all netns exec id | monitor",
  ping: "-f h | -c 1000 h | -i 0 h |  | -c 1 -f | -- -f",
  dig: "-f /etc/shadow | -k /etc/x h | @-f h",
  nslookup: " | -query=any h",
  vmstat: "1 | 1 100000",
  sysctl: "-w a=1 | a=1 | -p /etc/x | --system",
  ps:
    "e | auxe | -o pid,environ | -eo ENVIRON | -p 1 -o environ= | -o pid --format=x | -p -x | --sort --format",
  lsof: "-r | -D b/tmp/x | +D /",
  cat: "-- -x | ",
};
Deno.test("checkCommand() limits systemctl show to properties without secrets", () => {
  const shown = argv("systemctl show nginx")[3] ?? "";
  assert.match(shown, /^--property=Id,.*,ActiveState,/);
  assert.doesNotMatch(shown, /Env|ExecStart|Credential/);
});

Deno.test.each([
  ...["rm -rf /", "sh -c id", "bash", "env", "/bin/ls", "./ls", "../bin/ls", "zcat f", "xargs cat"],
  ...["less f", "curl http://h", "toString", "__proto__", "", "wc --files0-from=x"],
  ...["getent shadow", "iostat 1", "netstat -c", "ls --color=always", "uptime --sinc"],
  ...["host -- -x", "df relative"],
  ...Object.entries(REFUSED).flatMap(([program, all]) =>
    all.split(" | ").map((args) => `${program} ${args}`.trim())
  ),
]
  .map((text) => ({ name: text || "nothing", text })))("checkCommand() rejects $name", ({ text }) => {
    assert.equal(typeof argv(text), "string", JSON.stringify(argv(text)));
  });

Deno.test("checkCommand() rejects every unknown option", () => {
  const word = fc.oneof(
    fc.constantFrom(
      "-f",
      "--follow",
      "-x",
      "--",
      "-",
      "show",
      "status",
      "ps",
      "5",
      "@h",
      "+x",
      "a=b",
      "--tail=3",
      "-n",
      "-c",
    ),
    fc.string({ maxLength: 6 }),
  );
  const known = new Set(
    Object.values(PROGRAM_RULES).flatMap((rule) => "commands" in rule ? Object.values(rule.commands) : [rule])
      .flatMap((rule) => [
        ...(rule.flags ?? "").split(" "),
        ...Object.keys(rule.values ?? {}),
        ...[...(rule.always ?? []), ...(rule.unless?.add ?? []), ...(rule.with?.add ?? [])]
          .map((text) => text.replace(/^-+/, "").replace(/=.*$/, "")),
      ]),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.keys(PROGRAM_RULES)),
      fc.array(word, { maxLength: 5 }),
      (program, words) => {
        const checked = attempt(
          [program, ...words.map((text) => `'${text.replaceAll("'", "")}'`)].join(" "),
        );
        if (typeof checked === "string") return;
        const values = new Set(
          checked.args.filter((_arg, at) => /^-[A-Za-z]+$/.test(checked.args[at - 1]?.text ?? "")).map((
            { text },
          ) => text),
        );
        for (const { text } of checked.args) {
          if (!text.startsWith("-") || values.has(text)) continue;
          assert.ok(known.has(text.replace(/^-+/, "").replace(/=.*$/s, "")), text);
        }
      },
    ),
    { numRuns: 3000 },
  );
});

Deno.test.each([
  { text: "ls -l /tmp", words: ["ls", "-l", "/tmp"] },
  { text: "  ls\t-l  ", words: ["ls", "-l"] },
  { text: "grep 'a b|c' x", words: ["grep", "a b|c", "x"] },
  { text: 'grep "a \\"b\\" c" x', words: ["grep", 'a "b" c', "x"] },
  { text: "grep a\\ b x", words: ["grep", "a b", "x"] },
  { text: "grep '' x", words: ["grep", "", "x"] },
  { text: "a'b'\"c\"d", words: ["abcd"] },
  { text: 'x "a\\n"', words: ["x", "a\\n"] },
  { text: "ls *.log", words: ["ls", "*.log"] },
].map((row) => ({ ...row, name: row.text })))("splitCommand() splits $name", ({ text, words }) => {
  assert.deepEqual(splitCommand(text), words);
});

Deno.test.each([
  "",
  "   ",
  "ls; rm x",
  "ls | sh",
  "ls & rm x",
  "ls && rm x",
  "ls > x",
  "cat < x",
  "ls $HOME",
  "ls ${IFS}x",
  "ls `id`",
  "ls $(id)",
  "(ls)",
  'ls "$HOME"',
  'ls "`id`"',
  "ls\nrm x",
  "ls\rrm x",
  "ls\u2028rm x",
  "ls \0",
  "ls 'a\nb'",
  "ls \x1b[2J",
  "ls 'a",
  'ls "a',
  "ls a\\",
  "ls \ud800",
  "x".repeat(4001),
  "x ".repeat(101),
].map((text) => ({ name: JSON.stringify(text.slice(0, 20)), text })))(
  "splitCommand() rejects $name",
  ({ text }) => {
    assert.throws(() => splitCommand(text), ToolFailure);
  },
);
