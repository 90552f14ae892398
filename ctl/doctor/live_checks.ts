import { connect, type Socket } from "node:net";
import { systemClock, within } from "@gateway/shared/clock";
import { describeFault, errorText } from "@gateway/shared/errors";
import { findLoginShellRisk } from "@gateway/shared/policy";
import { quoteText, shellQuote } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { formatEnrollScript } from "../hosts/enroll.ts";
import { caLine, type PublicHalf } from "../hosts/next_ca.ts";
import { inBatches, runOverSsh } from "../kit/programs.ts";
import { AS_ROOT, fail, type Found, pass, SYNC_CLOCK, unknown, warn } from "./findings.ts";
import { askMonitor, readStatus, tooLate } from "./monitor.ts";
import { resolve } from "node:path";
import { type SignerClientConfig, signerUrls } from "@gateway/shared/config";
import { JsonClient, loadSignerTls, parseListenAddress, type TlsMaterial } from "@gateway/shared/http";
import { describeVersion } from "@gateway/shared/service";
import { reachable } from "../kit/values.ts";
import { adviseOnContact } from "../kit/contact_advice.ts";

type Host = SignerConfig["hosts"][string];

const WAIT_MS = 5_000;
const CONNECTIONS_AT_A_TIME = 32;
const LOGINS_AT_A_TIME = 8;
const MAX_BANNER_BYTES = 1_000;
/** Certificates begin 30 seconds before they are issued. */
const MOST_SKEW_SECONDS = 20;
const LONGEST_VALUE = 200;
/** Reason and fix for each status of a login in the output of `host enroll --status`. */
const BARRED: ReadonlyMap<string, readonly [why: string, fix: string]> = new Map([
  ["locked", ["it is locked, and sshd has UsePAM no", "on the host: usermod -p '*' ACCOUNT"]],
  ["expired", ["it has expired", "on the host: usermod -e '' ACCOUNT"]],
  ["shell", ["it has no login shell", "on the host: usermod -s /bin/sh ACCOUNT"]],
]);

/** Checks that sshd answers on each host. Hosts behind a bastion cannot be reached from here. */
export async function checkHosts(hosts: SignerConfig["hosts"]): Promise<readonly Found[]> {
  const reached = Object.entries(hosts).filter(([, { addr, jump = "" }]) => addr !== "" && jump === "");
  const behind = Object.values(hosts).filter(({ jump = "" }) => jump !== "").length;
  return [
    ...behind === 0 ? [] : [
      warn(
        `${behind} ${behind === 1 ? "host is" : "hosts are"} behind a bastion and not checked`,
        "check each: ssh -J ACCOUNT@BASTION ACCOUNT@HOST true",
      ),
    ],
    ...await inBatches(reached, CONNECTIONS_AT_A_TIME, async ([name, { addr }]) => {
      const shown = `host ${quoteText(name)} at ${addr}`;
      try {
        const banner = await readBanner(addr);
        if (banner.startsWith("SSH-2.0-")) return [pass(shown)];
        return [fail(`${shown} is not an SSH server`, addressOf(name))];
      } catch (error) {
        const fix = `on the host: systemctl start ssh; or ${addressOf(name)}`;
        return [fail(`${shown} does not respond: ${errorText(error)}`, fix)];
      }
    }),
  ];
}

function addressOf(name: string): string {
  return `correct its address: broker-ctl host add --name ${shellQuote(name)} --force --addr ADDRESS:22`;
}

async function readBanner(addr: string): Promise<string> {
  const { hostname, port } = new URL(`ssh://${addr}`);
  let socket: Socket | undefined;
  try {
    return await within(
      { clock: systemClock, ms: WAIT_MS, late: tooLate },
      () =>
        new Promise<string>((resolve, reject) => {
          socket = connect(Number(port || 22), hostname.replace(/^\[|\]$/g, ""));
          let text = "";
          socket.on("data", (bytes: Uint8Array) => {
            text += new TextDecoder("latin1").decode(bytes);
            if (text.includes("\n") || text.length > MAX_BANNER_BYTES) resolve(text);
          });
          socket.on("error", reject);
          socket.on("end", () => resolve(text));
        }),
    );
  } finally {
    socket?.destroy();
  }
}

/** Checks the settings of sshd on each host, as root on the host. Hosts behind a bastion are skipped. */
export async function checkHostSettings(
  hosts: SignerConfig["hosts"],
  { login, sshdConfig, caOf }: {
    readonly login: string;
    readonly sshdConfig: string | undefined;
    /** The public half of the key that signs for a host; undefined if it is not available here. */
    readonly caOf: (host: Host) => Promise<PublicHalf | undefined>;
  },
): Promise<readonly Found[]> {
  const reached = Object.entries(hosts).filter(([, { jump = "" }]) => jump === "");
  return await inBatches(reached, LOGINS_AT_A_TIME, async ([name, host]) => {
    const { user, principal = "" } = host;
    const script = formatEnrollScript({ mode: "status", user, principal, ca: [], sshdConfig });
    try {
      const asked = systemClock.now() / 1000;
      const { code, lines } = await runOverSsh(name, host, { script, login });
      const answered = systemClock.now() / 1000;
      if (code !== 0) throw new Error(lines.at(-1)?.slice(0, 200) ?? `exit code ${code}`);
      const key = await caOf(host);
      const ca = key && caLine(key).split(" ", 2).join(" ");
      // The host prints whole seconds, rounded down.
      return judgeHost({ name, ca, lines, asked: asked - 1, answered });
    } catch (error) {
      const check = `host ${quoteText(name)} cannot be checked over ssh: ${errorText(error)}`;
      return [
        unknown(check, `log in without a password: ssh ${login}@${host.addr.replace(/:\d+$/, "")} true`),
      ];
    }
  });
}

/**
 * Finds settings of a host's sshd that weaken certificates. The output of the host is not trusted.
 *
 * @param ca `<algorithm> <base64>` of the CA's key; undefined if it is not known here
 * @param asked this machine's time before the answer, in seconds
 */
export function judgeHost({ name, ca, lines, asked, answered }: {
  readonly name: string;
  readonly ca: string | undefined;
  readonly lines: readonly string[];
  readonly asked: number;
  readonly answered: number;
}): readonly Found[] {
  const of = (label: string) =>
    lines.find((line) => line.startsWith(label))?.slice(label.length).trim().slice(0, LONGEST_VALUE);
  const host = `host ${quoteText(name)}`;
  const enrol = `broker-ctl host enroll ${shellQuote(name)}`;
  const expect = (label: string, good: string, bad: (value: string) => Found) => {
    const value = of(label);
    if (value === undefined) return unknown(`${host} did not report ${label.trim()}`, "on the host: sshd -T");
    return value === good ? pass(`${host}: ${label}${good}`) : bad(value);
  };
  const [revoked, shell] = [of("sshd: revokedkeys "), of("shell: ")];
  const risk = shell ? findLoginShellRisk(shell) : "it did not report the account's login shell";
  const time = Number(of("time: ") ?? NaN);
  const off = Math.max(asked - time, time - answered, 0);
  return [
    ca === undefined
      ? unknown(
        `${host}: the CA's public key is not on this machine`,
        "on the machine with the key: broker-ctl doctor --live --over ssh",
      )
      : lines.includes(`ca: ${ca}`)
      ? pass(`${host} trusts the CA`)
      : fail(`${host} does not trust the signer's CA: it rejects every certificate`, enrol),
    expect("login: ", "yes", (value) => {
      const [why, fix = ""] = BARRED.get(value) ?? [];
      return why === undefined
        ? unknown(`${host} did not report whether logins are possible`, `${enrol} --print`)
        : fail(`${host}: no one can log in to the account, because ${why}`, fix);
    }),
    expect("principal: ", "yes", () => fail(`${host} does not accept certificates for it`, enrol)),
    expect("sshd: forcecommand ", "none", (value) =>
      fail(
        `${host} has ForceCommand ${quoteText(value)}, which replaces the command of a certificate`,
        "on the host: grep -rn ForceCommand /etc/ssh, and remove it for this account",
      )),
    revoked === "none"
      ? warn(`${host} has no RevokedKeys for stolen certificates`, `broker-ctl host krl ${shellQuote(name)}`)
      : expect("sshd: revokedkeys ", revoked ?? "", () => pass(host)),
    ...(["authorizedkeysfile", "authorizedkeyscommand"] as const).map((setting) =>
      expect(`sshd: ${setting} `, "none", (value) =>
        warn(
          `${host} also accepts plain SSH keys, which bypass policy, audit and freezes (${setting} ${value})`,
          `on the host: printf 'Match User ACCOUNT\\n  ${setting} none\\n' >> /etc/ssh/sshd_config; sshd -t`,
        ))
    ),
    expect("sshd: permituserenvironment ", "no", (value) =>
      fail(
        `${host} has PermitUserEnvironment ${quoteText(value)}: files of the account can change commands`,
        "on the host: sed -i 's/^PermitUserEnvironment.*/PermitUserEnvironment no/' /etc/ssh/sshd_config; sshd -t",
      )),
    risk === undefined
      ? pass(`${host}: its login shell is tested`)
      : warn(`${host}: ${risk}`, "on the host: usermod -s /bin/sh ACCOUNT"),
    Number.isNaN(off)
      ? unknown(`${host} did not report its time`, "on the host: date")
      : off <= MOST_SKEW_SECONDS
      ? pass(`${host}: its clock is correct`)
      : fail(`${host}: its clock is off by ${Math.round(off)} s: it can reject certificates`, SYNC_CLOCK),
  ];
}

/** Services with a shared state make no decisions if the state is older. */
const MOST_STATE_AGE_SECONDS = 2;

export async function checkService(monitorListen: string): Promise<readonly Found[]> {
  if (monitorListen === "") {
    const check = "monitor_listen is empty: the service cannot be monitored";
    return [warn(check, 'set "monitor_listen": "127.0.0.1:9160"')];
  }
  const address = reachable(monitorListen);
  try {
    parseListenAddress(monitorListen);
    const { ready, metrics } = await askMonitor(address);
    const { version, stateAgeSeconds } = readStatus({ address, ready, metrics });
    const ownVersion = describeVersion({ verbose: false });
    const skew = Math.abs(ready.time - systemClock.now()) / 1000;
    const unclear = (what: string) =>
      unknown(
        `the server at ${address} did not report ${what}`,
        "find the program that listens there: ss -tlnp",
      );
    return [
      !ready.ok
        ? fail(
          `the service is not ready: ${ready.text.trim().slice(0, 200)}`,
          "read its log: journalctl -n 50 -u 'gateway-*'",
        )
        : version === undefined
        ? unclear("its version")
        : pass(`ready, version ${version}`),
      ...version === undefined || version === ownVersion ? [] : [warn(
        `the service has version ${quoteText(version)}, this program ${quoteText(ownVersion)}`,
        "install the same version everywhere, then: systemctl restart SERVICE",
      )],
      ...stateAgeSeconds === undefined ? [] : [
        stateAgeSeconds <= MOST_STATE_AGE_SECONDS ? pass("its state is up to date") : fail(
          `its state is ${stateAgeSeconds} s old, so it makes no decisions`,
          "check the database and the network to it: broker-ctl status",
        ),
      ],
      Number.isNaN(skew)
        ? unclear("its time")
        : skew <= MOST_SKEW_SECONDS
        ? pass("its clock is correct")
        : fail(`its clock is off by ${Math.round(skew)} s`, SYNC_CLOCK),
    ];
  } catch (error) {
    return [
      fail(
        `the service does not respond at ${address}: ${errorText(error)}`,
        "start it: systemctl start SERVICE, or deno task start:SERVICE",
      ),
    ];
  }
}

/** Checks each URL of a `signer` block, because services skip an instance that is down without an error. */
export async function checkUpstreams(signer: SignerClientConfig, workingFolder: string) {
  const at = (path: string) => resolve(workingFolder, path);
  const { client_cert, client_key, ca } = signer;
  let tls: TlsMaterial;
  try {
    tls = await loadSignerTls({ client_cert: at(client_cert), client_key: at(client_key), ca: at(ca) });
  } catch (error) {
    const check = `the connection to the signer cannot be checked: ${errorText(error)}`;
    return [unknown(check, AS_ROOT)];
  }
  return await Promise.all(
    signerUrls(signer).map(async (url) => {
      try {
        using client = new JsonClient({
          ...{ clock: systemClock, what: "it", baseUrl: url, timeoutMs: WAIT_MS },
          ...tls,
        });
        // Every response shows that the service runs, even 404. With 401, the service does not accept the
        // certificate.
        const { status } = await client.request({ method: "GET", path: "/healthz" });
        return status !== 401 ? pass(`${url} responds`) : fail(
          `${url} rejects the certificate of signer.client_cert`,
          "use a certificate of its client_ca that is not in its denied_callers: broker-ctl identity list",
        );
      } catch (error) {
        const advice = adviseOnContact(error, { name: "service", url, ca: signer.ca });
        const check = "read the service's log: journalctl -n 50 -u 'gateway-*'";
        return fail(
          `${url} does not respond: ${describeFault(error)}`,
          advice === undefined ? check : `${advice}; ${check}`,
        );
      }
    }),
  );
}
