import assert from "node:assert/strict";
import { type AuditEntry, nthLog } from "@gateway/shared/audit";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { run, runInTerminal, start, words } from "./ctl_fixture.ts";
import { poll } from "../stage/poll.ts";

const ENTRIES: readonly AuditEntry[] = [
  {
    caller: "broker-1",
    host: "10.0.0.1:22",
    outcome: "issued",
    serial: 18446744073709551615n,
    command: "role=target",
  },
  { caller: "broker-2", host: "10.0.0.2:22", outcome: "denied", err: "no <rule>\x1b[2J\x9b\u202e" },
  {
    caller: "broker-1",
    host: "10.0.0.2:22",
    outcome: "issued",
    serial: 7n,
    command: "uptime",
    session_id: "5e551d",
    elevation: "sudo:root",
    pty: true,
    policy_rule: "allow:^uptime$",
    dry_run: true,
    approved_by: "ann",
    anomaly: "new host",
    warning: "would deny",
    err: "e",
  },
];

/** A log whose records are a second apart. */
async function createLog(): Promise<LogFolder> {
  const folder = new LogFolder();
  const log = await folder.open();
  for (const entry of ENTRIES) {
    await log.append(entry);
    folder.now += 1000;
  }
  await log.close();
  return folder;
}

const show = (log: LogFolder, ...flags: string[]) =>
  run(log.folder, "audit", "show", "--log", "audit.log", ...flags);

Deno.test("audit show prints all records as a table and escapes control characters", async () => {
  await using log = await createLog();
  assert.deepEqual(await show(log), {
    out: [
      "TIME                  SEQ     CALLER          HOST                  OUTCOME         SERIAL                DETAIL",
      "2026-01-02T03:04:05Z  1       broker-1        10.0.0.1:22           issued          18446744073709551615  role=target",
      "2026-01-02T03:04:06Z  2       broker-2        10.0.0.2:22           denied          —                     [err: no <rule>\\x1b[2J\\x9b\\u{202e}]",
      "2026-01-02T03:04:07Z  3       broker-1        10.0.0.2:22           issued          7                     uptime [session: 5e551d] [sudo:root] [pty] [rule: allow:^uptime$] [dry-run] [approved-by: ann] [anomaly: new host] [warning: would deny] [err: e]",
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
});

Deno.test("audit show prints a short table in a terminal, and -o wide all details", async () => {
  await using log = await createLog();
  const terminal = { workingFolder: log.folder, columns: 80 };
  const show = async (...flags: string[]) =>
    (await runInTerminal(terminal, "audit", "show", "--log", "audit.log", "--serial", "7", ...flags)).out;
  assert.match(
    await show(),
    /^TIME {6}WHO {11}HOST {10}WHAT {21}RESULT\n\d+d ago +broker-1 {6}10\.0\.0\.2:22 {3}uptime {19}issued\n$/,
  );
  assert.match(await show("-o", "wide"), /^TIME +SEQ.*\n.* uptime \[session: 5e551d\] .*\n$/);
  assert.equal(JSON.parse(await show("-o", "json")).seq, 3);
});

Deno.test("audit show truncates a long command, and --full and --json print all of it", async () => {
  await using log = await createLog();
  const file = await log.open();
  await file.append({ caller: "broker-1", host: "h", outcome: "executed", command: "a".repeat(20_000) });
  await file.close();
  const newest = async (...flags: string[]) => (await show(log, "--limit", "1", ...flags)).out;
  assert.match(await newest(), / a{400}…\[first 400 of 20000 characters\]\n$/);
  assert.match(await newest("--full"), / a{20000}\n$/);
  assert.equal(JSON.parse(await newest("--json")).command.length, 20_000);
});

Deno.test.each<{ name: string; flags: string; seqs: number[] }>([
  { name: "by a part of the host", flags: "--host 0.2:", seqs: [2, 3] },
  { name: "by a part of the caller", flags: "--caller r-1", seqs: [1, 3] },
  { name: "by outcome", flags: "--outcome denied", seqs: [2] },
  { name: "not by a part of the outcome", flags: "--outcome den", seqs: [] },
  { name: "by a serial of 64 bits", flags: "--serial 18446744073709551615", seqs: [1] },
  { name: "not by a serial close to it", flags: "--serial 18446744073709551614", seqs: [] },
  { name: "since a time, included", flags: "--since 2026-01-02T03:04:06Z", seqs: [2, 3] },
  { name: "since a time elsewhere", flags: "--since 2026-01-02T05:04:06.5+02:00", seqs: [3] },
  { name: "since a day", flags: "--since 2026-01-02", seqs: [1, 2, 3] },
  { name: "since tomorrow", flags: "--since 2026-01-03", seqs: [] },
  { name: "until a time, included", flags: "--until 2026-01-02T03:04:06Z", seqs: [1, 2] },
  { name: "until the end of a day", flags: "--until 2026-01-02", seqs: [1, 2, 3] },
  { name: "by all filters", flags: "--host 0.2 --caller broker-1 --outcome issued", seqs: [3] },
  { name: "the newest", flags: "--limit 2", seqs: [2, 3] },
  { name: "the newest that matches", flags: "--limit 1 --caller broker-1", seqs: [3] },
  { name: "no more than there are", flags: "--limit 9", seqs: [1, 2, 3] },
])("audit show selects $name", async ({ flags, seqs }) => {
  await using log = await createLog();
  const { out, err, exit } = await show(log, "--json", ...words(flags));
  const records = out.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
  assert.deepEqual(records.map(({ seq }) => seq), seqs);
  assert.deepEqual([err, exit], [seqs.length === 0 ? "(no matching entries)\n" : "", 0]);
});

Deno.test("audit show --json prints the original lines but escapes control characters", async () => {
  await using log = await createLog();
  const { out } = await show(log, "--json");
  const raw = await Deno.readTextFile(log.path);
  assert.equal(out, raw.replace("\x9b", "\\u009b").replace("\u202e", "\\u202e"));
  assert.match(out, /^(?:\P{C}|\n)*$/u);
  assert.match(out, /"serial":18446744073709551615,/);
});

Deno.test("audit show skips malformed lines and reports their number", async () => {
  await using log = await createLog();
  const text = await Deno.readTextFile(log.path);
  const [first, ...rest] = text.split("\n");
  await Deno.writeTextFile(
    log.path,
    [first, "\x1b[2J", '{"time":1}', "x".repeat(300_000), ...rest].join("\n") + '{"ti',
  );
  const { out, err, exit } = await show(log, "--json");
  assert.equal(out.split("\n").length, 4);
  assert.deepEqual([err, exit], ["4 malformed line(s) skipped; see broker-ctl audit verify\n", 0]);
});

/** A log with two files that were rotated within one second. */
async function createRotatedLog(): Promise<LogFolder> {
  const log = await createLog();
  const lines = (await Deno.readTextFile(log.path)).split("\n").slice(0, 3);
  const files = ["audit.log.20260102T030405Z", "audit.log.20260102T030405Z.1", "audit.log"];
  for (const [index, name] of files.entries()) {
    await Deno.writeTextFile(`${log.folder}/${name}`, `${lines[index]}\n`);
  }
  // Neither is a rotated file of this log.
  await Deno.writeTextFile(`${log.folder}/audit.log.corrupt-20260102T030405Z`, `${lines[0]}\n`);
  await Deno.writeTextFile(`${log.folder}/other.log.20260102T030405Z`, `${lines[0]}\n`);
  return log;
}

Deno.test.each<{ name: string; flags: string; seqs: number[] }>([
  { name: "the log alone", flags: "", seqs: [3] },
  { name: "with --all, records of rotated files first, oldest first", flags: "--all", seqs: [1, 2, 3] },
  { name: "with --all the newest of all files", flags: "-all=true --limit 2", seqs: [2, 3] },
  { name: "with --all, matching records of any file", flags: "--all --caller broker-1", seqs: [1, 3] },
])("audit show reads $name", async ({ flags, seqs }) => {
  await using log = await createRotatedLog();
  const { out } = await show(log, "--json", ...words(flags));
  assert.deepEqual(out.trim().split("\n").map((line) => JSON.parse(line).seq), seqs);
});

Deno.test("audit show --all reads rotated files without the active log, and fails without any file", async () => {
  await using log = await createRotatedLog();
  await Deno.remove(log.path);
  const { out } = await show(log, "--json", "--all");
  assert.deepEqual(out.trim().split("\n").map((line) => JSON.parse(line).seq), [1, 2]);
  assert.equal((await show(log)).exit, 1);
  await using empty = new LogFolder();
  const result = await show(empty, "--all");
  assert.match(result.err, /^error: Cannot read audit log .*: no such file\nfix: .*\n$/);
  assert.equal(result.exit, 1);
  assert.equal((await run("/", "audit", "show", "--all", "--log", "/nowhere/audit.log")).exit, 1);
});

Deno.test("audit show --all lists a file once if the log and a rotated name are the same file", async () => {
  await using log = await createRotatedLog();
  await Deno.link(log.path, `${log.path}.20260102T030406Z`);
  const { out } = await show(log, "--json", "--all");
  assert.deepEqual(out.trim().split("\n").map((line) => JSON.parse(line).seq), [1, 2, 3]);
});

Deno.test("audit show of an empty log reports no matching entries", async () => {
  await using log = new LogFolder();
  await Deno.writeTextFile(log.path, "");
  assert.deepEqual(await show(log), { out: "", err: "(no matching entries)\n", exit: 0 });
});

Deno.test.each<{ name: string; flags: string; error: RegExp; exit?: number }>([
  {
    name: "a log that does not exist",
    flags: "--log nowhere",
    error: /Cannot read audit log .*no such file/,
    exit: 1,
  },
  { name: "no log and no config", flags: "", error: /Cannot load config .*\nfix: pass --config/, exit: 1 },
  { name: "an invalid serial", flags: "--log audit.log --serial x", error: /Cannot use serial "x"/ },
  { name: "an invalid time", flags: "--log audit.log --since yesterday", error: /Cannot read time/ },
  { name: "an invalid day", flags: "--log audit.log --since 2026-02-31", error: /Cannot read time/ },
  {
    name: "a time without a time zone",
    flags: "--log audit.log --since 2026-01-02T03:04:05",
    error: /Cannot read time/,
  },
  { name: "a limit of none", flags: "--log audit.log --limit 0", error: /number from 1/ },
  { name: "an invalid limit", flags: "--log audit.log --limit 1e3", error: /number from 1/ },
])("audit show rejects $name", async ({ flags, error, exit = 2 }) => {
  await using log = await createLog();
  const result = await run(log.folder, "audit show", ...words(flags));
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit], ["", exit]);
});

Deno.test("audit show --set lists the records of several processes by time", async () => {
  await using log = new LogFolder();
  const second = await log.open({ path: nthLog(log.path, 2) });
  for (
    const [outcome, file] of [["one", log], ["two", undefined], ["three", log], ["four", undefined]] as const
  ) {
    log.now += 1000;
    if (file === undefined) await second.append({ outcome });
    else await file.write(outcome);
  }
  await second.close();
  const show = async (...flags: string[]) => {
    const { out } = await run(log.folder, "audit", "show", "--json", "--log", "audit.log", ...flags);
    return out.trim().split("\n").map((line) => JSON.parse(line).outcome);
  };
  assert.deepEqual(await show("--set"), ["one", "two", "three", "four"]);
  assert.deepEqual(await show("--set", "--limit", "2"), ["three", "four"]);
  assert.deepEqual(await show(), ["one", "three"]);
});

Deno.test("audit show --request ignores the request ID inside a command of another request", async () => {
  await using log = new LogFolder();
  const file = await log.open();
  await file.append({ outcome: "one", command: "uptime", request_id: "r-1" });
  await file.append({ outcome: "two", command: "ls rid=r-1", request_id: "r-2" });
  await file.append({ outcome: "three", command_line: "uptime", request_id: "r-1" });
  // Without `ext`, as an earlier release wrote it.
  await file.append({ outcome: "four", command: "uptime rid=r-1" });
  await file.close();
  const { out } = await run(log.folder, "audit", "show", "--json", "--log", "audit.log", "--request", "r-1");
  assert.deepEqual(out.trim().split("\n").map((line) => JSON.parse(line).outcome), ["one", "three", "four"]);
});

/** An installation of a signer, a control plane and a broker, with records that are two hours old. */
async function createInstallation(): Promise<LogFolder> {
  const folder = new LogFolder();
  const request = { caller: "broker-1", request_id: "4a1b", session_id: "77c0", command_line: "uptime" };
  const described = { ...request, principal: "p", command: "role=target purpose=oneshot user=alice" };
  const spoofed = { caller: "bob", host: "10.0.0.9:22", command: described.command, user: "deploy" };
  const logs = {
    "signer.json": { name: "signer", entry: { ...described, host: "10.0.0.5:22", outcome: "issued" } },
    "control-plane.json": { name: "cp", entry: { caller: "broker-1", host: "web01", outcome: "denied" } },
    "config.json": { name: "broker", entry: { ...spoofed, outcome: "executed" } },
  };
  folder.now = Date.now() - 7_200_000;
  await Deno.writeFile(`${folder.folder}/seed`, SEED);
  for (const [file, { name, entry }] of Object.entries(logs)) {
    const path = `${folder.folder}/${name}.log`;
    const hosts = { web01: { addr: "10.0.0.5:22" }, web02: { addr: "" } };
    await Deno.writeTextFile(
      `${folder.folder}/${file}`,
      JSON.stringify({ audit_log: path, audit_key: "seed", hosts, other: 1 }),
    );
    const log = await folder.open({ path });
    await log.append(entry);
    await log.close();
    folder.now += 60_000;
  }
  return folder;
}

Deno.test.each<{ name: string; flags?: string; found: string }>([
  { name: "all logs by default", found: "issued denied executed" },
  {
    name: "a host by its name, in records with only its address",
    flags: "--host web01",
    found: "issued denied",
  },
  {
    name: "a host by its address, in records with only its name",
    flags: "--host 0.5:",
    found: "issued denied",
  },
  { name: "no records without an address", flags: "--host web02", found: "" },
  { name: "an end user, but not in a command of an agent", flags: "--user ali", found: "issued" },
  { name: "an account", flags: "--user deploy", found: "executed" },
  { name: "a session by its first digits", flags: "--session 77", found: "issued" },
  { name: "a request by its first digits", flags: "--request 4a", found: "issued" },
  { name: "a text in any field", flags: "--grep UPTIME", found: "issued" },
  { name: "the last two hours", flags: "--since 119m30s", found: "denied executed" },
  { name: "up to a time", flags: "--until 1h59m30s", found: "issued" },
  { name: "one log", flags: "--log cp.log --host 0.5: --config signer.json", found: "denied" },
])("audit show in the directory of an installation finds $name", async ({ flags = "", found }) => {
  await using folder = await createInstallation();
  const { out, err } = await run(folder.folder, "audit", "show", "--json", ...words(flags));
  assert.equal(out.match(/(?<="outcome":")\w+/g)?.join(" ") ?? "", found);
  assert.equal(err, found === "" ? "(no matching entries)\n" : "");
});

Deno.test("audit show in the directory of an installation names rotated files that it leaves out", async () => {
  await using folder = await createInstallation();
  await Deno.copyFile(`${folder.folder}/cp.log`, `${folder.folder}/cp.log.20260102T030405Z`);
  assert.match(
    (await run(folder.folder, "audit", "show")).err,
    /^rotated files were not searched; --all .*\n$/,
  );
  assert.deepEqual((await run(folder.folder, "audit", "show", "--all")).err, "");
});

Deno.test.each<{ name: string; change: (log: string) => Promise<void>; says: RegExp; ok: boolean }>([
  { name: "are intact", change: async () => {}, says: /^control-plane\/cp\.log: OK: 1 entries/m, ok: true },
  { name: "miss one", change: Deno.remove, says: /^control-plane\/cp\.log: not checked/m, ok: true },
  {
    name: "have another author",
    change: (log) => Deno.writeTextFile(log, Deno.readTextFileSync(log).replace("denied", "issued")),
    says: /^control-plane\/cp\.log: FAIL: /m,
    ok: false,
  },
])("audit verify checks all logs of an installation that $name", async ({ change, says, ok }) => {
  await using folder = await createInstallation();
  const verify = (...flags: string[]) => run(folder.folder, "audit", "verify", ...flags);
  assert.equal((await verify("--since", "heads")).exit, 0);
  await change(`${folder.folder}/cp.log`);
  const { out, exit } = await verify();
  assert.match(out, says);
  assert.match(out, /^signer\/signer\.log: OK: 1 entries, chain intact, all signatures valid$/m);
  assert.equal(exit, ok ? 0 : 1);
  const remembered = await verify("--since", "heads", "--json");
  assert.equal(JSON.parse(remembered.out).ok, ok && out.includes("cp.log: OK"));
});

Deno.test("audit tail follows all logs of an installation with filters, the last records by time", async () => {
  await using folder = await createInstallation();
  const { result, stop } = start(folder.folder, "audit", "tail", "--user", "broker-1", "-o", "table");
  await poll(() => result.out.includes("denied"), { what: "the last records" });
  const log = await folder.open({ path: `${folder.folder}/broker-2.log` });
  await log.append({ caller: "bob", outcome: "one" });
  await log.append({ caller: "broker-1", outcome: "two" });
  await log.close();
  await poll(() => result.out.includes("two"), { what: "the record of a further process" });
  assert.equal(await stop(), 0);
  const rows = result.out.trimEnd().split("\n").map((row) => row.trim().split(/ +/));
  assert.deepEqual(rows.map((row) => [row[1], row.at(-1)]), [
    ["WHO", "RESULT"],
    ["alice", "issued"],
    ["broker-1", "denied"],
    ["broker-1", "two"],
  ]);
});
