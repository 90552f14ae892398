import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import type { ClusterAction } from "@gateway/shared/policy";
import { cutText, quoteText } from "@gateway/shared/text";
import { MAX_K8S_MANIFEST_BYTES } from "@gateway/shared/wire";

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Line breaks of YAML, as which the API server reads a manifest, and not of JSON: kube-apiserver 1.36 makes a blank of
 * the first, and drops the blanks beside the others. As escapes they are left alone.
 */
const YAML_BREAK = /[\u0085\u2028\u2029]/;

/** As much of a wrong value as an error repeats, in characters. */
const MAX_SHOWN = 100;

/**
 * Checks that a manifest is one JSON document of the very object that an apply is asked for, and can be read in one way
 * only: what the policy decides about, what a human sees and what the API server does must be the same.
 *
 * @throws {AppError} `invalid_request` that says what is wrong
 */
export function checkManifest(text: string, { resource, namespace, name }: ClusterAction): void {
  if (text.trim() === "") throw invalid("k8s apply requires a manifest");
  if (new TextEncoder().encode(text).length > MAX_K8S_MANIFEST_BYTES) {
    throw invalid(`the manifest exceeds the limit of ${MAX_K8S_MANIFEST_BYTES} bytes`);
  }
  const manifest = parseManifest(text);
  const apiVersion = resource.group === "" ? resource.version : `${resource.group}/${resource.version}`;
  const metadata = manifest["metadata"];
  if (!isObject(metadata)) throw invalid("the manifest has no metadata object");
  expect("apiVersion", manifest["apiVersion"], apiVersion);
  expect("kind", manifest["kind"], resource.kind);
  expect("metadata.name", metadata["name"], name);
  // Left out, it is that of the request; but what has none must not seem to be in one.
  if (Object.hasOwn(metadata, "namespace")) expect("metadata.namespace", metadata["namespace"], namespace);
}

function parseManifest(text: string): JsonObject {
  let manifest: unknown;
  try {
    manifest = parseJson(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw invalid(`the manifest is not ${describeOther(text)}`, cause);
  }
  if (!isObject(manifest)) throw invalid("the manifest is not a JSON object");
  // The API server reads it as YAML, where a second key of a name may be an error or may be the one that counts.
  if (keysOf(manifest) !== countColons(text)) throw invalid("the manifest has an object with a key twice");
  if (YAML_BREAK.test(text)) {
    throw invalid(
      "the manifest has a line break that YAML reads otherwise: write it as \\u0085, \\u2028 or \\u2029",
    );
  }
  return manifest;
}

function keysOf(manifest: JsonObject): number {
  try {
    return countKeys(manifest);
  } catch (cause) {
    if (cause instanceof RangeError) throw invalid("the manifest is nested too deeply", cause);
    throw cause;
  }
}

/** What it is not, with what it may be instead. */
function describeOther(text: string): string {
  const start = text.trimStart();
  if (!start.startsWith("{") && !start.startsWith("[")) return "JSON (send JSON, not YAML)";
  if (/\}\s*(?:---\s*)?\{/.test(text)) return "one JSON document (apply objects one by one)";
  return "valid JSON";
}

/** Outside strings a JSON text has one colon for each key. */
function countColons(text: string): number {
  return (text.match(/"(?:[^"\\]|\\[^]?)*"?|:/g) ?? []).filter((token) => token === ":").length;
}

function countKeys(value: unknown): number {
  if (isBeyond64Bits(value)) throw invalid("the manifest has a number beyond 64 bits");
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countKeys(item), 0);
  if (!isObject(value)) return 0;
  return Object.values(value).reduce((sum: number, member) => sum + 1 + countKeys(member), 0);
}

/** What the API server takes for another number, such as 0. */
function isBeyond64Bits(value: unknown): boolean {
  if (typeof value === "bigint") return BigInt.asIntN(64, value) !== value;
  return typeof value === "number" && Math.abs(value) > 2 ** 63;
}

function expect(what: string, found: unknown, expected: string): void {
  if (found === expected) return;
  const told = typeof found === "string" ? quoteText(cutText(found, MAX_SHOWN)) : "missing or not a text";
  const wanted = expected === "" ? "none" : quoteText(expected);
  throw invalid(`the manifest's ${what} does not match the arguments: ${told}, expected ${wanted}`);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(message: string, cause?: unknown): AppError {
  return new AppError("invalid_request", `bad request: ${message}`, { cause });
}
