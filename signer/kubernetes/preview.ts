import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import { type ClusterAction, type CompiledCluster, FIELD_MANAGER, objectPath } from "@gateway/shared/policy";
import type { K8sDiff } from "@gateway/shared/wire";
import { type ApiAnswer, type ClusterApi, readConflicts, readMessage } from "@gateway/shared/kubernetes";
import { diffObjects } from "./object_diff.ts";

/** For both requests. An approver without it decides by the manifest, a broker that waits too long gives up. */
const PREVIEW_MS = 4_000;
/** The largest object that an API server keeps has 1.5 MB. */
const MAX_ANSWER_BYTES = 4 << 20;

interface PreviewWish {
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  readonly action: ClusterAction;
  readonly manifest: string;
  /** A token of the ServiceAccount that the apply would be done as. */
  readonly token: string;
  /** The fields that the apply may take over from other managers. */
  readonly forceFields: readonly string[];
}

/** Finds out by the API server itself what an apply would change: it has no effect there. */
export class ApiPreviewer {
  readonly #options: { readonly api: ClusterApi; readonly clock: Clock };

  constructor(options: { readonly api: ClusterApi; readonly clock: Clock }) {
    this.#options = options;
  }

  /** @throws {AppError} `conflict` naming the fields that another manager owns */
  async preview(wish: PreviewWish): Promise<K8sDiff> {
    const deadline = this.#options.clock.now() + PREVIEW_MS;
    const { action, manifest } = wish;
    const path = objectPath(action);
    const current = await this.#ask(wish, { method: "GET", path }, deadline);
    if (current.kind !== "answered") return unknown("the API server gave no answer that can be used");
    const exists = current.status === 200;
    if (!exists && current.status !== 404) {
      return unknown(`the object can't be read: ${describe(current)}`);
    }
    const apply = (force: string) =>
      this.#ask(wish, {
        method: "PATCH",
        path: `${path}?fieldManager=${FIELD_MANAGER}&dryRun=All${force}`,
        body: { type: "application/apply-patch+yaml", bytes: new TextEncoder().encode(manifest) },
      }, deadline);
    let applied = await apply("");
    if (applied.kind === "answered" && applied.status === 409) {
      const fields = readConflicts(applied.text);
      const isNamed = fields.length > 0 && fields.every((field) => wish.forceFields.includes(field));
      if (!isNamed) {
        const named = fields.length === 0 ? "" : `; force_fields: ${JSON.stringify(fields.slice(0, 100))}`;
        throw new AppError("conflict", `the apply would fail: ${describe(applied)}${named}`);
      }
      applied = await apply("&force=true");
    }
    if (applied.kind !== "answered") return unknown("the API server gave no answer that can be used");
    if (applied.status !== 200 && applied.status !== 201) {
      return unknown(`the apply would fail: ${describe(applied)}`);
    }
    if (!exists) return { kind: "created" };
    try {
      return diffObjects(readObject(current.text), readObject(applied.text), {
        isSecret: action.resource.kind === "Secret",
      });
    } catch (error) {
      // What it says of an object goes before people: nothing of what could not be read is shown.
      if (error instanceof SyntaxError || error instanceof RangeError || error instanceof AppError) {
        return unknown("the API server's answer is no object");
      }
      throw error;
    }
  }

  #ask(
    { cluster, ca, token }: PreviewWish,
    request: Pick<Parameters<ClusterApi["request"]>[1], "method" | "path" | "body">,
    deadline: number,
  ): Promise<ApiAnswer> {
    const timeoutMs = Math.max(1, deadline - this.#options.clock.now());
    return this.#options.api.request({ cluster, ca }, {
      ...request,
      token,
      timeoutMs,
      maxBytes: MAX_ANSWER_BYTES,
    });
  }
}

function readObject(text: string): unknown {
  const value = parseJson(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new SyntaxError("not an object");
}

function describe({ status, text }: Extract<ApiAnswer, { kind: "answered" }>): string {
  const message = readMessage(text);
  return message === "" ? String(status) : `${status} ${message}`;
}

function unknown(reason: string): K8sDiff {
  return { kind: "unknown", reason };
}
