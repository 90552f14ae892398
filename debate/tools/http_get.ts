import * as z from "@zod/zod";
import { withoutCutWord } from "../engine/graph/text.ts";
import { defineTool, type Finding, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import { type FetchedAnswer, fetchGuarded, type HttpPorts, parseHttpUrl } from "./http_fetch.ts";
import type { AllowList } from "./net_guard.ts";
import type { Tool } from "../engine/ports.ts";

const MAX_BODY_BYTES = 256 * 1024;

const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b|application\/(?:x-ndjson|javascript|openmetrics-text|problem\+json|x-yaml))/i;

const schema = z.strictObject({
  url: z.string().max(4096).describe("http: or https: URL, without credentials"),
  timeout: timeoutArgument(10),
});

export function createHttpGet(ports: HttpPorts, allowed: AllowList, services: ToolServices): Tool {
  return defineTool({
    name: "http_get",
    description:
      "Sends one HTTP GET, for instance to a health endpoint, and shows status, type and the text of the answer. " +
      "Addresses in private networks are reachable only where the operator allowed them.",
    schema,
    async run({ url }, { signal }) {
      const start = parseHttpUrl(url);
      const answer = await fetchGuarded(start, { method: "GET", maxBytes: MAX_BODY_BYTES, signal }, {
        ports,
        allowed,
      });
      return show(start, answer);
    },
  }, services);
}

function show(start: URL, { url, status, statusText, headers, body, isCut }: FetchedAnswer): Finding {
  const type = headers["content-type"] ?? "";
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") {
    // Never decompressed, since a small answer can expand to gigabytes.
    refuse(`${start.host} answered ${status}, compressed (${encoding}) although not asked to; not shown`);
  }
  const lines = [
    ...(url.href === start.href ? [] : [`final URL: ${url.href}`]),
    `content-type: ${type === "" ? "none" : type}`,
    ...(isCut ? [`only the first ${MAX_BODY_BYTES} bytes were read`] : []),
    "",
    isText(type, body) ? decode(body, isCut) : `(${body.length} bytes that are not text, not shown)`,
  ];
  // A status of 500 is a valid result: it shows the state of the service.
  return { ok: true, title: `GET ${start.href}: ${status} ${statusText}`, body: lines.join("\n") };
}

function decode(body: Uint8Array, isCut: boolean): string {
  const text = new TextDecoder().decode(body);
  return isCut ? withoutCutWord(text) : text;
}

function isText(type: string, body: Uint8Array): boolean {
  if (type !== "" && !TEXT_TYPE.test(type)) return false;
  return !body.subarray(0, 8192).includes(0);
}
