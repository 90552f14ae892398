import { parse } from "yaml";
import { isObject } from "./field_set.ts";
import { apiVersionOf, type Resource } from "./resources.ts";
import { ApiFailure, badRequest, invalid } from "./status.ts";
import { groupKind } from "./tokens.ts";

export type Json = Readonly<Record<string, unknown>>;

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const NAME_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must " +
  "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const MAX_NAME_LENGTH = 253;

/** Parses a JSON body into an object. */
export function parseBody(text: string, { kind }: Pick<Resource, "kind">): Json {
  try {
    const body: unknown = JSON.parse(text);
    if (isObject(body)) return body;
  } catch {
    // The following field defines it.
  }
  const hex = new TextEncoder().encode(text).toHex();
  throw badRequest(
    `the object provided is unrecognized (must be of type ${kind}): couldn't get version/kind; json parse error (${hex})`,
  );
}

export function parseManifest(text: string): Json {
  let manifest: unknown;
  try {
    // The server reads only the first of several documents.
    manifest = parse(text.split(/^---$/m).find((document) => document.trim() !== "") ?? "", {
      schema: "core",
    });
  } catch (error) {
    throw badRequest(`error decoding YAML: error converting YAML to JSON: yaml: ${(error as Error).message}`);
  }
  if (!isObject(manifest)) {
    const what = Array.isArray(manifest) ? "array" : typeof manifest;
    throw badRequest(
      "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal " +
        `${what} into Go value of type map[string]interface {}`,
    );
  }
  return manifest;
}

/** Checks the well-known fields of a kind. The real server checks all fields. */
export function checkFields(type: Resource, manifest: Json): void {
  const { name = "", namespace = "" } = isObject(manifest.metadata) ? manifest.metadata : {};
  const refuse = (problem: string) =>
    new ApiFailure(
      500,
      undefined,
      `failed to create typed patch object (${namespace}/${name}; ${
        groupKind(apiVersionOf(type), type.kind)
      }): ${problem}`,
    );
  if (type.fields === undefined) return;
  for (const key of Object.keys(manifest)) {
    if (!["apiVersion", "kind", "metadata", ...type.fields].includes(key)) {
      throw refuse(`.${key}: field not declared in schema`);
    }
  }
  if (!isObject(manifest.data)) return;
  for (const [key, value] of Object.entries(manifest.data)) {
    if (typeof value !== "string") {
      throw refuse(`.data.${key}: expected string, got &value.valueUnstructured{Value:${value}}`);
    }
  }
}

export function checkType(type: Resource, { apiVersion, kind }: Json): void {
  if ((apiVersion ?? apiVersionOf(type)) === apiVersionOf(type) && (kind ?? type.kind) === type.kind) return;
  throw badRequest(
    `${kind} in version "${
      String(apiVersion).split("/").at(-1)
    }" cannot be handled as a ${type.kind}: converting ` +
      `(${groupKind(String(apiVersion), String(kind))}) to (${groupKind(apiVersionOf(type), type.kind)})`,
  );
}

export function checkName(type: Resource, name: string): void {
  const isTooLong = name.length > MAX_NAME_LENGTH;
  if (NAME.test(name) && !isTooLong) return;
  // The names of roles and bindings have few restrictions.
  if (type.group === "rbac.authorization.k8s.io" && name !== "" && !/[/%]/.test(name)) return;
  const rule = isTooLong ? `must be no more than ${MAX_NAME_LENGTH} characters` : NAME_RULE;
  const [reason, message] = name === ""
    ? ["FieldValueRequired", "Required value: name or generateName is required"]
    : ["FieldValueInvalid", `Invalid value: "${name}": ${rule}`];
  throw invalid({ group: type.group, kind: type.kind, name }, { reason, message, field: "metadata.name" });
}
