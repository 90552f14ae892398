import assert from "node:assert/strict";
import { encodeEnvelope } from "@gateway/shared/envelope";
import {
  freshFields,
  HOST,
  InstalledShim,
  NEXT_KEY,
  type RunOptions,
  secondsFromNow,
  SIGNER_KEY,
} from "./installed_shim.ts";
import { SHIMS, type ShimVariant } from "./shims.ts";

/** Prints its own arguments, as stored by the kernel, and reads no more input. */
const SHOW_ARGUMENTS = "tr '\\0' '|' </proc/$$/cmdline; exit 0 #";

interface AcceptedCase {
  readonly name: string;
  readonly command?: string;
  readonly expiry?: () => string;
  readonly nonce?: string;
  /** Changes the envelope on the way to the host. */
  readonly travel?: (envelope: string) => string;
  readonly arrange?: (shim: InstalledShim) => Promise<void>;
  readonly options?: RunOptions;
  readonly code?: number;
  readonly stdout?: string;
  readonly stderr?: string;
}

const ODD_BYTES = Array.from({ length: 0x2fff }, (_, code) => String.fromCharCode(code + 1))
  .filter((_, index) => index < 0x100 || index % 37 === 0).join("");

const CASES: readonly AcceptedCase[] = [
  {
    name: "returns the command's output and exit code",
    command: "echo a; echo b >&2; exit 7",
    code: 7,
    stdout: "a\n",
    stderr: "b\n",
  },
  { name: "returns exit code 126 of the command", command: "exit 126", code: 126, stdout: "" },
  {
    name: "passes stdin to the command",
    command: "cat",
    options: { stdin: "line\nrest" },
    stdout: "line\nrest",
  },
  { name: "accepts spaces around the envelope", travel: (envelope) => ` \t${envelope}\n` },
  { name: "accepts an expiry five minutes from now", expiry: () => secondsFromNow(299) },
  { name: "accepts a nonce of 16 digits", nonce: "0123456789abcdef" },
  { name: "accepts a nonce of 64 digits", nonce: "0123456789abcdef".repeat(4) },
  ...[
    { name: "line feeds at the end", command: `${SHOW_ARGUMENTS}\n\n\n` },
    { name: "a space at both ends", command: ` ${SHOW_ARGUMENTS} ` },
    { name: "a dot at the end", command: `${SHOW_ARGUMENTS} .` },
    { name: "carriage returns", command: `${SHOW_ARGUMENTS}\r\n\r\n` },
    { name: "every byte and letters of other scripts", command: `${SHOW_ARGUMENTS}\n${ODD_BYTES}` },
    { name: "60,000 letters", command: `${SHOW_ARGUMENTS} # ${"ab ".repeat(20_000)}` },
    { name: "40,000 line feeds", command: `${SHOW_ARGUMENTS}${"\n".repeat(40_000)}` },
  ].map(({ name, command }) => ({
    name: `passes a command with ${name} unchanged`,
    command,
    stdout: `/bin/sh|-c|${command}|`,
  })),
  ...[
    {
      name: "comments and blank lines",
      lines: (line: string) => ["# the signer's", "", `  ${line}`, " # end"],
    },
    {
      name: "two keys of a rotation, the old one first",
      lines: (line: string, next: string) => [line, next],
    },
    {
      name: "two keys of a rotation, the new one first",
      lines: (line: string, next: string) => [next, line],
    },
  ].map(({ name, lines }) => ({
    name: `accepts a key file with ${name}`,
    arrange: ({ format, ...shim }: InstalledShim) =>
      Deno.writeTextFile(
        `${shim.folder}/keys`,
        `${lines(format.keyLine(SIGNER_KEY), format.keyLine(NEXT_KEY)).join("\n")}\n`,
      ),
  })),
  {
    name: "accepts a key file without a line feed at its end",
    arrange: ({ format, keyFile }) => Deno.writeTextFile(keyFile, format.keyLine(SIGNER_KEY)),
  },
  {
    name: "creates a missing directory of used nonces with mode 0700",
    arrange: ({ store }) => Deno.remove(store),
    command: "echo done",
  },
];

async function runCase(
  shim: InstalledShim,
  { command, expiry, nonce, travel, arrange, options }: AcceptedCase,
) {
  await arrange?.(shim);
  const envelope = shim.seal({
    ...command === undefined ? {} : { command },
    ...expiry === undefined ? {} : { expiry: expiry() },
    ...nonce === undefined ? {} : { nonce },
    ...options?.stdin === undefined ? {} : { stdin: "watch" },
  });
  return await shim.run(travel?.(envelope) ?? envelope, options);
}

for (const { name, format, shell } of SHIMS) {
  Deno.test.each(CASES)(`${name} $name`, async (row) => {
    await using shim = await InstalledShim.create(format, shell);
    const { code, stdout, stderr } = await runCase(shim, row);
    assert.deepEqual({ code, stdout, stderr }, {
      code: row.code ?? 0,
      stdout: row.stdout ?? "done\n",
      stderr: row.stderr ?? "",
    });
    assert.equal(shim.claims().length, 1);
    assert.equal(((await Deno.stat(`${shim.store}/${shim.claims()[0]}`)).mode ?? 0) & 0o077, 0);
  });
  Deno.test(`${name} accepts the signer's envelopes`, () => takesWhatTheSignerMakes(format, shell));
  Deno.test(`${name} accepts the key that a rotation adds and rejects the key that it removes`, () =>
    followsRotation(format, shell));
  Deno.test(`${name} runs an envelope once`, () => runsOnce(format, shell));
  Deno.test(`${name} runs one of sixteen concurrent envelopes`, () => hasOneWinner(format, shell));
  Deno.test(`${name} executes the command, so a signal ends it`, () => becomesTheCommand(format, shell));
  Deno.test(`${name} passes the session's environment to the command, without the envelope`, () =>
    passesSurroundings(format, shell));
  Deno.test(`${name} is not affected by the session's environment`, () => ignoresSurroundings(format, shell));
  Deno.test(`${name} deletes nonces that are older than any valid envelope`, () => sweeps(format, shell));
  Deno.test(`${name} prints its version`, async () => {
    await using shim = await InstalledShim.create(format, shell);
    const { code, stdout, stderr } = await shim.run(undefined, { args: ["--version"] });
    const expected = `gateway-shim dev (${format.name === "v1" ? "v1" : "v2, v3"})\n`;
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: expected, stderr: "" });
  });
}

type Format = ShimVariant["format"];
type Shell = ShimVariant["shell"];

async function takesWhatTheSignerMakes(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const { expiry, ...fields } = freshFields({ command: "echo <é>&\\\" '😀'" });
  const version = format.name === "v1"
    ? { version: "v1", domain: "gateway-sealed-exec-v1" } as const
    : { version: format.name } as const;
  const envelope = encodeEnvelope(
    { stdin: "none", ...fields, expiresAt: Number(expiry) },
    SIGNER_KEY,
    version,
  );
  const { stdout } = await shim.run(envelope);
  assert.equal(stdout, await plainly("echo <é>&\\\" '😀'"));
}

/** The output of a command in an ordinary shell. */
async function plainly(command: string): Promise<string> {
  const { stdout } = await new Deno.Command("/bin/sh", { args: ["-c", command], stderr: "null" }).output();
  return new TextDecoder().decode(stdout);
}

async function followsRotation(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const [old, next] = [format.keyLine(SIGNER_KEY), format.keyLine(NEXT_KEY)];
  const codes: number[] = [];
  for (const lines of [[old], [old, next], [next]]) {
    await shim.writeKeys(...lines);
    for (const key of [SIGNER_KEY, NEXT_KEY]) codes.push((await shim.run(shim.seal({}, key))).code);
  }
  assert.deepEqual(codes, [0, 126, 0, 0, 126, 0]);
}

async function runsOnce(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const nonce = "ab".repeat(16);
  const envelope = shim.seal({ nonce });
  assert.equal((await shim.run(envelope)).stdout, "done\n");
  for (const again of [envelope, ` ${envelope}`, shim.seal({ nonce, command: "echo another" })]) {
    const { code, stdout, stderr } = await shim.run(again);
    assert.deepEqual({ code, stdout, stderr }, {
      code: 126,
      stdout: "",
      stderr: "gateway-shim: refused: envelope already used (replay)\n",
    });
  }
}

async function hasOneWinner(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const envelope = shim.seal();
  const results = await Promise.all(Array.from({ length: 16 }, () => shim.run(envelope)));
  const winners = results.filter(({ code, stdout }) => code === 0 && stdout === "done\n");
  const losers = results.filter(({ code, stdout, stderr }) =>
    code === 126 && stdout === "" && stderr === "gateway-shim: refused: envelope already used (replay)\n"
  );
  assert.deepEqual([winners.length, losers.length], [1, 15]);
}

async function becomesTheCommand(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const { signal, code } = await shim.run(shim.seal({ command: "kill -TERM $$" }));
  assert.deepEqual({ signal, code }, { signal: "SIGTERM", code: 143 });
}

/** Prints the environment of a command: variables, umask, directory, descriptors, ignored signals, parent. */
const DESCRIBE = "env | grep -v '^_=' | sort; umask; pwd; " +
  "for fd in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; " +
  "grep SigIgn /proc/$$/status; trap; echo $PPID | grep -q . && set -o | grep -v '^Current'";

async function passesSurroundings(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const odd = ["keys", "store", "format", "line", "pinned", "message", "command", "now", "folder", "rest"];
  const env = {
    ...Object.fromEntries([...odd, "gateway"].map((name) => [name, `of the session: ${name}`])),
    PATH: "/opt/none:/usr/bin:/bin",
    LC_ALL: "C.UTF-8",
    TMPDIR: "/nowhere",
    DENO_DIR: "/nowhere",
    HOME: "/tmp",
  };
  const before = "umask 027; exec 3<&- 4<&- 5<&- 6<&- 7</dev/null 8<&- 9<&-; cd /tmp";
  const sealed = await shim.run(shim.seal({ command: DESCRIBE }), { env, before });
  // Start the same shell first, because shells set variables themselves.
  const plain = await new Deno.Command("sh", {
    args: ["-c", `${before}; exec "$@"`, "sh", ...shell, "-c", 'exec /bin/sh -c "$1"', "sh", DESCRIBE],
    clearEnv: true,
    env,
  }).output();
  assert.equal(sealed.stdout, new TextDecoder().decode(plain.stdout));
  assert.match(sealed.stdout, /^0027$/m);
}

async function ignoresSurroundings(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const folder = `${shim.folder}/hostile`;
  await Deno.mkdir(folder);
  for (
    const name of "ssh-keygen base64 tr date find mkdir deno env dirname readlink".split(" ")
  ) {
    await Deno.writeTextFile(`${folder}/${name}`, "#!/bin/sh\necho id; exit 0\n", { mode: 0o755 });
  }
  const names = "keys store format line pinned message nonce expiry now command lf".split(" ");
  const env = {
    ...Object.fromEntries(names.map((name) => [name, "1"])),
    PATH: `${folder}:/usr/bin:/bin`,
    IFS: "AEIOUaeiou0123456789",
    ENV: `${folder}/env`,
    TMPDIR: "/nowhere",
    XDG_RUNTIME_DIR: "/nowhere",
    HOME: "/nowhere",
    DENO_DIR: folder,
    DENO_TLS_CA_STORE: "none",
    NODE_OPTIONS: "--require=/nowhere",
    LC_ALL: "C.UTF-8",
    POSIXLY_CORRECT: "1",
  };
  const before = "umask 777; ulimit -f 0";
  const good = await shim.run(shim.seal(), { env });
  assert.deepEqual([good.code, good.stdout, good.stderr], [0, "done\n", ""]);
  const forged = await shim.run(shim.seal({}, NEXT_KEY), { env, before });
  assert.deepEqual([forged.code, forged.stdout], [126, ""]);
  const other = await shim.run(shim.seal({ host: "web02" }), {
    env: { ...env, host: HOST, this_host: "web02" },
  });
  assert.deepEqual([other.code, other.stdout], [126, ""]);
}

async function sweeps(format: Format, shell: Shell): Promise<void> {
  await using shim = await InstalledShim.create(format, shell);
  const [old, young] = ["aa".repeat(16), "bb".repeat(16)];
  for (const nonce of [old, young]) assert.equal((await shim.run(shim.seal({ nonce }))).code, 0);
  await Deno.mkdir(`${shim.store}/not a nonce`);
  await Deno.writeTextFile(`${shim.store}/not a nonce/file`, "");
  for (const [name, age] of [[old, 700], [young, 500], ["not a nonce", 700]] as const) {
    const time = Date.now() / 1000 - age;
    await Deno.utime(`${shim.store}/${name}`, time, time);
  }
  const nonce = "cc".repeat(16);
  assert.equal((await shim.run(shim.seal({ nonce }))).code, 0);
  assert.deepEqual(shim.claims().toSorted(), [young, nonce, "not a nonce"].toSorted());
}
