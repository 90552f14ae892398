import { connect, type Socket } from "node:net";
import { systemClock, within } from "@gateway/shared/clock";
import { describeFault, errorText } from "@gateway/shared/errors";
import { findLoginShellRisk } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { formatEnrolScript } from "../hosts/enrol.ts";
import { caLine, type PublicHalf } from "../hosts/next_ca.ts";
import { inBatches, runOverSsh } from "../kit/programs.ts";
import { fail, type Found, pass, unknown, warn } from "./findings.ts";
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
/** Reason and fix by the word that `host enrol --status` prints. */
const BARRED: ReadonlyMap<string, readonly [why: string, fix: string]> = new Map([
  ["locked", ["which is locked, and its sshd has UsePAM no", "usermod -p '*' and the account, there"]],
  ["expired", ["which expired", "usermod -e '' and the account, there"]],
  ["shell", ["whose login shell is none", "usermod -s /bin/sh and the account, there"]],
]);

/** Checks that sshd answers on each host. Hosts behind a bastion cannot be reached from here. */
export async function checkHosts(hosts: SignerConfig["hosts"]): Promise<readonly Found[]> {
  const reached = Object.entries(hosts).filter(([, { addr, jump = "" }]) => addr !== "" && jump === "");
  const behind = Object.values(hosts).filter(({ jump = "" }) => jump !== "").length;
  return [
    ...behind === 0 ? [] : [
      warn(
        `${behind} ${behind === 1 ? "host is" : "hosts are"} behind others, and not looked at`,
        "run a command there, such as uptime, through a broker",
      ),
    ],
    ...await inBatches(reached, CONNECTIONS_AT_A_TIME, async ([name, { addr }]) => {
      const shown = `host ${quoteText(name)} at ${addr}`;
      try {
        const banner = await readBanner(addr);
        if (banner.startsWith("SSH-2.0-")) return [pass(shown)];
        return [fail(`${shown} is no SSH server`, "look at its addr")];
      } catch (error) {
        const fix = "start sshd there, or look at its addr and the network";
        return [fail(`${shown} does not answer: ${errorText(error)}`, fix)];
      }
    }),
  ];
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

/** Checks the settings of sshd on each host, as root there; hosts behind a bastion are left out. */
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
    const script = formatEnrolScript({ mode: "status", user, principal, ca: [], sshdConfig });
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
      const check = `host ${quoteText(name)} can't be asked over ssh: ${errorText(error)}`;
      return [unknown(check, `see that you may log in there as ${login}`)];
    }
  });
}

/**
 * Finds settings of a host's sshd that break what certificates promise. The answer of the host is not trusted.
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
  const enrol = `broker-ctl host enrol ${name}`;
  const expect = (label: string, good: string, bad: (value: string) => Found) => {
    const value = of(label);
    if (value === undefined) return unknown(`${host} does not say its ${label.trim()}`, "run sshd -T there");
    return value === good ? pass(`${host}: ${label}${good}`) : bad(value);
  };
  const [revoked, shell] = [of("sshd: revokedkeys "), of("shell: ")];
  const risk = shell ? findLoginShellRisk(shell) : "it does not say its account's login shell";
  const time = Number(of("time: ") ?? NaN);
  const off = Math.max(asked - time, time - answered, 0);
  return [
    ca === undefined
      ? unknown(`${host}: the CA's public key is not here to compare with`, "run it where it is")
      : lines.includes(`ca: ${ca}`)
      ? pass(`${host} trusts the CA`)
      : fail(`${host} does not trust the CA that signs: it refuses every certificate`, enrol),
    expect("login: ", "yes", (value) => {
      const [why, fix = ""] = BARRED.get(value) ?? [];
      return why === undefined
        ? unknown(`${host} does not say whether anybody gets in`, `look there: ${enrol} --print`)
        : fail(`${host} lets nobody into its account, ${why}`, fix);
    }),
    expect("principal: ", "yes", () => fail(`${host} does not accept certificates for it`, enrol)),
    expect("sshd: forcecommand ", "none", (value) =>
      fail(
        `${host} has ForceCommand ${quoteText(value)}: it runs in place of what a certificate allows`,
        "take it out of sshd_config there, for this account",
      )),
    revoked === "none"
      ? warn(
        `${host} has no RevokedKeys: it believes a stolen certificate until that ends`,
        `broker-ctl host krl ${name}`,
      )
      : expect("sshd: revokedkeys ", revoked ?? "", () => pass(host)),
    ...(["authorizedkeysfile", "authorizedkeyscommand"] as const).map((setting) =>
      expect(`sshd: ${setting} `, "none", (value) =>
        warn(
          `${host} takes keys without a certificate (${setting} ${value}): past rules, records and freezes`,
          `Match User, and ${setting} none, in sshd_config there`,
        ))
    ),
    expect("sshd: permituserenvironment ", "no", (value) =>
      fail(
        `${host} has PermitUserEnvironment ${quoteText(value)}: files of the account change what commands do`,
        "PermitUserEnvironment no",
      )),
    risk === undefined
      ? pass(`${host}: its login shell is proved`)
      : warn(`${host}: ${risk}`, "give the account /bin/sh, or another that is proved"),
    Number.isNaN(off)
      ? unknown(`${host} does not say which time it is`, "run date there")
      : off <= MOST_SKEW_SECONDS
      ? pass(`${host}: its clock is right`)
      : fail(
        `${host}: its clock is ${Math.round(off)} s off this machine's: certificates are early or late there`,
        "run a time service on both",
      ),
  ];
}

/** With an older state, services that share it decide nothing. */
const MOST_STATE_AGE_SECONDS = 2;

export async function checkService(monitorListen: string): Promise<readonly Found[]> {
  if (monitorListen === "") {
    const check = "there is no monitor_listen: nobody sees whether it works";
    return [warn(check, "set it, such as 127.0.0.1:9160")];
  }
  const address = reachable(monitorListen);
  try {
    parseListenAddress(monitorListen);
    const { ready, metrics } = await askMonitor(address);
    const { version, stateAgeSeconds } = readStatus({ address, ready, metrics });
    const ownVersion = describeVersion({ verbose: false });
    const skew = Math.abs(ready.time - systemClock.now()) / 1000;
    const unclear = (what: string) =>
      unknown(`what answers at ${address} does not say ${what}`, "look at what listens there");
    return [
      !ready.ok
        ? fail(
          `the service is there and not ready: ${ready.text.trim().slice(0, 200)}`,
          "its log says more",
        )
        : version === undefined
        ? unclear("which version of the service it is")
        : pass(`ready, version ${version}`),
      ...version === undefined || version === ownVersion ? [] : [warn(
        `the service is of version ${quoteText(version)}, this program of ${quoteText(ownVersion)}`,
        "restart the service after an upgrade, and have the same version everywhere",
      )],
      ...stateAgeSeconds === undefined ? [] : [
        stateAgeSeconds <= MOST_STATE_AGE_SECONDS ? pass("what it decides by is fresh") : fail(
          `what it decides by is ${stateAgeSeconds} s old: it decides nothing`,
          "look at the database and the network to it",
        ),
      ],
      Number.isNaN(skew)
        ? unclear("which time it is")
        : skew <= MOST_SKEW_SECONDS
        ? pass("its clock is right")
        : fail(`its clock is ${Math.round(skew)} s off this machine's`, "run a time service on both"),
    ];
  } catch (error) {
    return [fail(`the service does not answer at ${address}: ${errorText(error)}`, "start it")];
  }
}

/** Checks each URL of a `signer` block: services pass over one that is down, and nobody notices. */
export async function checkUpstreams(signer: SignerClientConfig, workingFolder: string) {
  const at = (path: string) => resolve(workingFolder, path);
  const { client_cert, client_key, ca } = signer;
  let tls: TlsMaterial;
  try {
    tls = await loadSignerTls({ client_cert: at(client_cert), client_key: at(client_key), ca: at(ca) });
  } catch (error) {
    const check = `what it asks can't be asked from here: ${errorText(error)}`;
    return [unknown(check, "run it as who may read its certificate and key, such as root")];
  }
  return await Promise.all(
    signerUrls(signer).map(async (url) => {
      try {
        using client = new JsonClient({
          ...{ clock: systemClock, what: "it", baseUrl: url, timeoutMs: WAIT_MS },
          ...tls,
        });
        // "Not found" is an answer too. 401: the service does not accept the certificate.
        const { status } = await client.request({ method: "GET", path: "/healthz" });
        return status !== 401 ? pass(`${url} answers`) : fail(
          `${url} does not take the certificate of signer.client_cert`,
          "have a certificate that its client_ca has issued and its denied_callers does not name: broker-ctl identity list",
        );
      } catch (error) {
        const advice = adviseOnContact(error, { name: "service", url, ca: signer.ca });
        return fail(
          `${url} does not answer: ${describeFault(error)}`,
          advice ?? "look at the network to it, and its log",
        );
      }
    }),
  );
}
