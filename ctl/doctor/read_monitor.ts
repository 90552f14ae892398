import { systemClock, within } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { reachable } from "../kit/addresses.ts";
import { readStatus, type ServiceStatus, silentStatus } from "./service_status.ts";

const WAIT_MS = 5_000;
/** Metrics are a few kilobytes; what answers may be anything. */
const MAX_BYTES = 1 << 20;

/**
 * Asks a monitor. One that does not answer in time has a status too.
 *
 * @throws {AppError} `invalid_request` for what is no `host:port`
 */
export async function readMonitor(address: string): Promise<ServiceStatus> {
  try {
    parseListenAddress(address);
  } catch (error) {
    throw new AppError("invalid_request", errorText(error), { cause: error });
  }
  const base = `http://${reachable(address)}`;
  try {
    const late = () => new Error(`no answer within ${WAIT_MS / 1000} s`);
    return await within({ clock: systemClock, ms: WAIT_MS, late }, async (signal) => {
      const [ready, metrics] = [
        await askMonitor(`${base}/readyz`, signal),
        await askMonitor(`${base}/metrics`, signal),
      ];
      const shown = Date.parse(metrics.date ?? "");
      // Whole seconds, cut off.
      const ahead = Math.round((shown + 500 - systemClock.now()) / 1000);
      return readStatus({
        ...{ address, ready, metrics: metrics.text },
        ...(Number.isNaN(ahead) ? {} : { aheadSeconds: ahead }),
      });
    });
  } catch (error) {
    return silentStatus(address, `it does not answer: ${errorText(error)}`);
  }
}

/** What a page of a monitor says. */
interface MonitorPage {
  readonly ok: boolean;
  readonly text: string;
  /** As its header has it; `null` without one. */
  readonly date: string | null;
}

/** @throws {Error} for one that does not answer, or without end */
export async function askMonitor(url: string, signal: AbortSignal): Promise<MonitorPage> {
  const response = await fetch(url, { signal, redirect: "error" });
  let text = "";
  for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.length > MAX_BYTES) throw new Error("its answer is too long");
  }
  return { ok: response.ok, text, date: response.headers.get("date") };
}
