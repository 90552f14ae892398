import { connect, type Socket } from "node:net";
import { systemClock, within } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { caLine, type PublicHalf } from "../hosts/next_ca.ts";
import { formatEnrolScript } from "../hosts/enrol_script.ts";
import { reachable } from "../kit/addresses.ts";
import { runOverSsh } from "../kit/over_ssh.ts";
import { askMonitor } from "./read_monitor.ts";
import { readStatus } from "./service_status.ts";
import { fail, type Finding, pass, unknown, warn } from "./finding.ts";
import { judgeHost } from "./host_settings.ts";

const WAIT_MS = 5_000;
const AT_A_TIME = 32;
/** Certificates begin 30 seconds before they are issued. */
const MOST_SKEW_SECONDS = 20;
const MAX_BANNER_BYTES = 1_000;
/** Above that, services that share a state decide nothing. */
const MOST_STATE_AGE_SECONDS = 2;
const LOGINS_AT_A_TIME = 8;

/**
 * What a service's monitor says: whether it is ready, whether it is of this program's version, how old the state is
 * that it decides by, and what its clock shows.
 */
export async function checkService(
  file: string,
  monitorListen: string,
  ownVersion: string,
): Promise<readonly Finding[]> {
  if (monitorListen === "") {
    return [
      warn(
        file,
        "there is no monitor_listen: nobody sees whether it works",
        "set it, such as 127.0.0.1:9160",
      ),
    ];
  }
  const address = reachable(monitorListen);
  try {
    parseListenAddress(monitorListen);
    const ask = (page: string) =>
      within(
        { clock: systemClock, ms: WAIT_MS, late: tooLate },
        (signal) => askMonitor(`http://${address}/${page}`, signal),
      );
    const [ready, metrics] = await Promise.all([ask("readyz"), ask("metrics")]);
    const { version, stateAgeSeconds } = readStatus({ address, ready, metrics: metrics.text });
    const skew = Math.abs(Date.parse(ready.date ?? "") - systemClock.now()) / 1000;
    return [
      ready.ok && version === undefined
        ? unknown(
          file,
          `what answers at ${address} does not say which version of the service it is`,
          "look at what listens there",
        )
        : ready.ok
        ? pass(file, `ready, version ${version}`)
        : fail(
          file,
          `the service is there and not ready: ${ready.text.trim().slice(0, 200)}`,
          "its log says more",
        ),
      ...version === undefined || version === ownVersion ? [] : [warn(
        file,
        `the service is of version ${quoteText(version)}, this program of ${quoteText(ownVersion)}`,
        "restart the service after an upgrade, and have the same version everywhere",
      )],
      ...stateAgeSeconds === undefined ? [] : [
        stateAgeSeconds <= MOST_STATE_AGE_SECONDS ? pass(file, "what it decides by is fresh") : fail(
          file,
          `what it decides by is ${stateAgeSeconds} s old: it decides nothing`,
          "look at the database and the network to it",
        ),
      ],
      Number.isNaN(skew)
        ? unknown(
          file,
          `what answers at ${address} does not say which time it is`,
          "look at what listens there",
        )
        : skew <= MOST_SKEW_SECONDS
        ? pass(file, "its clock is right")
        : fail(file, `its clock is ${Math.round(skew)} s off this machine's`, "run a time service on both"),
    ];
  } catch (error) {
    return [fail(file, `the service does not answer at ${address}: ${errorText(error)}`, "start it")];
  }
}

function tooLate(): Error {
  return new Error("no answer within 5 s");
}

/** Whether sshd answers on each host; those behind a bastion can't be reached from here. */
export async function checkHosts(file: string, hosts: SignerConfig["hosts"]): Promise<readonly Finding[]> {
  const reached = Object.entries(hosts).filter(([, { addr, jump = "" }]) => addr !== "" && jump === "");
  const behind = Object.values(hosts).filter(({ jump = "" }) => jump !== "").length;
  const findings: Finding[] = behind === 0 ? [] : [
    warn(
      file,
      `${behind} ${behind === 1 ? "host is" : "hosts are"} behind others, and not looked at`,
      "run a command there, such as uptime, through a broker",
    ),
  ];
  for (let start = 0; start < reached.length; start += AT_A_TIME) {
    findings.push(
      ...await Promise.all(
        reached.slice(start, start + AT_A_TIME).map(async ([name, { addr }]) => {
          const shown = `host ${quoteText(name)} at ${addr}`;
          try {
            const banner = await readBanner(addr);
            return banner.startsWith("SSH-2.0-")
              ? pass(file, shown)
              : fail(file, `${shown} is no SSH server`, "look at its addr");
          } catch (error) {
            return fail(
              file,
              `${shown} does not answer: ${errorText(error)}`,
              "start sshd there, or look at its addr and the network",
            );
          }
        }),
      ),
    );
  }
  return findings;
}

/** Where hosts are asked over ssh, and by whose login. */
interface LookOverSsh {
  readonly login: string;
  readonly sshdConfig: string | undefined;
  /** The public half of the key that signs for a host; undefined where that is not to be had here. */
  readonly caOf: (host: SignerConfig["hosts"][string]) => Promise<PublicHalf | undefined>;
}

/** What sshd of each host is set to, as root there is told; those behind others are left out. */
export async function checkHostSettings(
  file: string,
  hosts: SignerConfig["hosts"],
  { login, sshdConfig, caOf }: LookOverSsh,
): Promise<readonly Finding[]> {
  const reached = Object.entries(hosts).filter(([, { jump = "" }]) => jump === "");
  const findings: Finding[] = [];
  const look = async (name: string, host: SignerConfig["hosts"][string]): Promise<readonly Finding[]> => {
    const { user, principal = "" } = host;
    const script = formatEnrolScript({ mode: "status", user, principal, ca: [], sshdConfig }).join("\n");
    try {
      const asked = systemClock.now() / 1000;
      const { code, lines } = await runOverSsh(name, host, { script: `${script}\n`, login });
      const answered = systemClock.now() / 1000;
      if (code !== 0) throw new Error(lines.at(-1)?.slice(0, 200) ?? `exit code ${code}`);
      const key = await caOf(host);
      const ca = key && caLine(key).split(" ", 2).join(" ");
      // The host's seconds are whole ones, cut off.
      return judgeHost({ file, name, ca, lines, asked: asked - 1, answered });
    } catch (error) {
      return [
        unknown(
          file,
          `host ${quoteText(name)} can't be asked over ssh: ${errorText(error)}`,
          `see that you may log in there as ${login}`,
        ),
      ];
    }
  };
  for (let start = 0; start < reached.length; start += LOGINS_AT_A_TIME) {
    const some = reached.slice(start, start + LOGINS_AT_A_TIME);
    findings.push(...(await Promise.all(some.map(([name, host]) => look(name, host)))).flat());
  }
  return findings;
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
