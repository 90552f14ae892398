/**
 * Objects of a cluster as people and models may see them: of a Secret the names of its keys stay, its values go.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { maskObject } from "@gateway/shared/kubernetes";
 *
 * const secret = { kind: "Secret", metadata: { name: "db" }, data: { password: "aHVudGVyMg==" } };
 * assert.deepEqual(maskObject(secret), {
 *   kind: "Secret",
 *   metadata: { name: "db" },
 *   data: { password: "[masked: 7 bytes]" },
 * });
 * ```
 *
 * @module
 */
import { parseJson, stringifyJson } from "../json.ts";

/**
 * An annotation that can be the whole object, values and all, as kubectl and kapp put it there, and k3s compressed. All
 * others are shown: an approver has to see what they set off.
 */
const COPY = /[{}"\r\n]|[\w+/=-]{64}/;

/** What a Secret has beside its values. */
const PLAIN_MEMBERS: ReadonlySet<string> = new Set(["apiVersion", "kind", "type", "immutable"]);

type JsonObject = Readonly<Record<string, unknown>>;

/** How an object is known to be a Secret, beside its own word. */
interface MaskOptions {
  /** It was asked for as one, whatever it says that it is: so are the items of a list. */
  readonly isSecret?: boolean;
}

/** Masks an object if it is a Secret, and of a list every item that is one. */
export function maskObject(value: unknown, { isSecret = false }: MaskOptions = {}): unknown {
  if (!isObject(value)) return isSecret ? maskValue(value) : value;
  const { kind, items } = value;
  // The items of a list do not say what they are.
  if (isList(kind)) {
    const areSecrets = isSecret || kind === "SecretList";
    return {
      ...(areSecrets ? maskMembers(value, ["metadata", "items"]) : value),
      ...(Array.isArray(items) && {
        items: items.map((item) => maskObject(item, { isSecret: areSecrets })),
      }),
    };
  }
  // An answer that is no object of the cluster: it says what became of the request.
  if (kind === "Status") return value;
  return isSecret || kind === "Secret" ? maskSecret(value) : value;
}

/** The same of a JSON text; `undefined` when it is none, so that nobody knows what is in it. */
export function maskText(text: string, options: MaskOptions = {}): string | undefined {
  try {
    return stringifyJson(maskObject(parseJson(text), options));
  } catch (error) {
    // Too deep for whoever writes it again.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

function maskSecret(secret: JsonObject): JsonObject {
  const { metadata } = secret;
  return {
    ...maskMembers(secret, ["metadata"]),
    ...(isObject(metadata) && { metadata: maskAnnotations(metadata) }),
  };
}

/** Whatever else a Secret may come to have: what is not known is masked. */
function maskMembers(object: JsonObject, except: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => {
      if (PLAIN_MEMBERS.has(key) || (except.includes(key) && typeof value === "object")) return [key, value];
      if (!isObject(value)) return [key, maskValue(value)];
      const lengthOf = key === "data" ? decodedLength : byteLength;
      return [
        key,
        Object.fromEntries(Object.entries(value).map(([name, each]) => [name, maskValue(each, lengthOf)])),
      ];
    }),
  );
}

function maskAnnotations(metadata: JsonObject): JsonObject {
  const { annotations } = metadata;
  if (annotations === undefined) return metadata;
  if (!isObject(annotations)) return { ...metadata, annotations: maskValue(annotations) };
  const mask = (value: unknown) => typeof value === "string" && !COPY.test(value) ? value : maskValue(value);
  const masked = Object.entries(annotations).map(([name, value]) => [name, mask(value)]);
  return { ...metadata, annotations: Object.fromEntries(masked) };
}

function maskValue(value: unknown, lengthOf: (text: string) => number = byteLength): string {
  if (value === null || value === undefined) return "[masked: 0 bytes]";
  return `[masked: ${typeof value === "string" ? lengthOf(value) : byteLength(stringifyJson(value))} bytes]`;
}

/** Of base64; of what is none, its own. */
function decodedLength(text: string): number {
  try {
    return Uint8Array.fromBase64(text).length;
  } catch (error) {
    if (error instanceof SyntaxError) return byteLength(text);
    throw error;
  }
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function isList(kind: unknown): kind is string {
  return typeof kind === "string" && kind.endsWith("List");
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
