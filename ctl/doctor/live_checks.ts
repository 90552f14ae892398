import { connect, type Socket } from "node:net";
import { systemClock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http/listen_address";
import { quoteText } from "@gateway/shared/quote";
import { within } from "@gateway/shared/within";
import type { SignerConfig } from "@gateway/signer/config";
import { reachable } from "../init/options.ts";
import { fail, type Finding, pass, unknown, warn } from "./finding.ts";

const WAIT_MS = 5_000;
const AT_A_TIME = 32;
/** Certificates begin 30 seconds before they are issued. */
const MOST_SKEW_SECONDS = 20;
const MAX_BANNER_BYTES = 1_000;

/** What a service's monitor says: whether it is ready, what version runs, and what its clock shows. */
export async function checkService(file: string, monitorListen: string): Promise<readonly Finding[]> {
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
    const [ready, metrics] = await Promise.all([
      ask(`http://${address}/readyz`),
      ask(`http://${address}/metrics`),
    ]);
    const version = /^gateway_build_info\{[^}]*version="([^"]*)"/m.exec(metrics.text)?.[1];
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
        : fail(file, `the service is there and not ready: ${ready.text.slice(0, 200)}`, "its log says more"),
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

async function ask(url: string): Promise<Answer> {
  return await within({ clock: systemClock, ms: WAIT_MS, late: tooLate }, async (signal) => {
    const response = await fetch(url, { signal, redirect: "error" });
    return { ok: response.ok, text: (await response.text()).trim(), date: response.headers.get("date") };
  });
}

function tooLate(): Error {
  return new Error("no answer within 5 s");
}

interface Answer {
  readonly ok: boolean;
  readonly text: string;
  readonly date: string | null;
}

/** Whether sshd answers on each host; those behind a bastion can't be reached from here. */
export async function checkHosts(file: string, hosts: SignerConfig["hosts"]): Promise<readonly Finding[]> {
  const reached = Object.entries(hosts).filter(([, { jump = "" }]) => jump === "");
  const behind = Object.keys(hosts).length - reached.length;
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
