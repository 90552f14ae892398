// Objects of a cluster as people and models may see them: the keys of a Secret stay, its values are masked.
import { isObject, type JsonObject, parseJson, stringifyJson } from "../json.ts";

/**
 * An annotation that may be a copy of the whole object, as kubectl, kapp and k3s (compressed) write it. All others are
 * shown, because an approver has to see their effects.
 */
const COPY = /[{}"\r\n]|[\w+/=-]{64}/;

const PLAIN_MEMBERS: ReadonlySet<string> = new Set(["apiVersion", "kind", "type", "immutable"]);

/**
 * `isSecret`: the object, or the items of the list, were requested as Secrets. They are masked regardless of
 * their own kind.
 */
interface MaskOptions {
  readonly isSecret?: boolean;
}

/** Masks an object if it is a Secret, and every Secret of a list. */
export function maskObject(value: unknown, { isSecret = false }: MaskOptions = {}): unknown {
  if (!isObject(value)) return isSecret ? maskValue(value) : value;
  const { kind, items } = value;
  // The items of a list do not name their kind.
  if (typeof kind === "string" && kind.endsWith("List")) {
    const areSecrets = isSecret || kind === "SecretList";
    return {
      ...(areSecrets ? maskMembers(value, ["metadata", "items"]) : value),
      ...(Array.isArray(items) && {
        items: items.map((item) => maskObject(item, { isSecret: areSecrets })),
      }),
    };
  }
  // A Status describes the result of the request, and is not an object of the cluster.
  if (kind === "Status" || !isSecret && kind !== "Secret") return value;
  const { metadata } = value;
  return {
    ...maskMembers(value, ["metadata"]),
    ...(isObject(metadata) && { metadata: maskAnnotations(metadata) }),
  };
}

/** {@linkcode maskObject} for a JSON text; `undefined` if it is not JSON, so that its contents are unknown. */
export function maskText(text: string, options: MaskOptions = {}): string | undefined {
  try {
    return stringifyJson(maskObject(parseJson(text), options));
  } catch (error) {
    // A RangeError means that the object is nested too deeply to be written again.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Also masks unknown members, because future versions may add members to a Secret. */
function maskMembers(object: JsonObject, except: readonly string[]): JsonObject {
  return mapMembers(object, (value, key) => {
    if (PLAIN_MEMBERS.has(key) || (except.includes(key) && typeof value === "object")) return value;
    if (!isObject(value)) return maskValue(value);
    return mapMembers(value, (each) => maskValue(each, key === "data" ? decodedLength : byteLength));
  });
}

function maskAnnotations(metadata: JsonObject): JsonObject {
  const { annotations } = metadata;
  if (annotations === undefined) return metadata;
  if (!isObject(annotations)) return { ...metadata, annotations: maskValue(annotations) };
  const mask = (value: unknown) => typeof value === "string" && !COPY.test(value) ? value : maskValue(value);
  return { ...metadata, annotations: mapMembers(annotations, mask) };
}

function mapMembers(object: JsonObject, map: (value: unknown, key: string) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));
}

function maskValue(value: unknown, lengthOf: (text: string) => number = byteLength): string {
  if (value === null || value === undefined) return "[masked: 0 bytes]";
  return `[masked: ${typeof value === "string" ? lengthOf(value) : byteLength(stringifyJson(value))} bytes]`;
}

/** The length of the decoded base64, or of the text if it is not base64. */
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
