import { isDeepStrictEqual } from "node:util";
import { apply, encodeManagers, type Manager, managersAfterUpdate } from "./apply.ts";
import { checkFields, checkName, checkType, type Json, parseBody, parseManifest } from "./bodies.ts";
import { isObject } from "./field_set.ts";
import { listObjects, type ListRequest } from "./lists.ts";
import type { User } from "./rbac.ts";
import { apiVersionOf, type Resource, resource } from "./resources.ts";
import {
  alreadyExists,
  ApiFailure,
  badRequest,
  detailsOf,
  invalid,
  methodNotAllowed,
  notFound,
  qualified,
} from "./status.ts";
import type { Store, StoredObject } from "./store.ts";
import { groupKind, timestamp } from "./tokens.ts";

/** An authorized request for objects of a resource. */
export interface ObjectRequest extends ListRequest {
  readonly user: User;
  readonly userAgent: string;
  readonly contentType: string;
  readonly body: string;
}

export interface ObjectAnswer {
  readonly status: number;
  readonly object: unknown;
}

/** Creates, reads, changes and deletes objects in the store. */
export class Objects {
  readonly #store: Store;
  readonly #now: () => number;
  readonly #managers = new Map<string, readonly Manager[]>();

  constructor(store: Store, now: () => number) {
    this.#store = store;
    this.#now = now;
  }

  handle(request: ObjectRequest): ObjectAnswer {
    switch (request.target.verb) {
      case "get":
        return { status: 200, object: this.existing(request) };
      case "list":
        return { status: 200, object: listObjects(this.#store, request) };
      case "create":
        return this.#create(request);
      case "patch":
        return request.contentType === "application/apply-patch+yaml"
          ? this.#apply(request)
          : this.#mergePatch(request);
      case "delete":
        return this.#delete(request);
      default:
        throw methodNotAllowed();
    }
  }

  existing({ resource: type, target }: ObjectRequest): StoredObject {
    const object = this.#store.get(type, type.namespaced ? target.namespace : "", target.name);
    if (object === undefined) throw notFound(type, target.name);
    return object;
  }

  #create(request: ObjectRequest): ObjectAnswer {
    const { resource: type, target } = request;
    const body = parseBody(request.body, type);
    checkType(type, body);
    const metadata = isObject(body.metadata) ? body.metadata : {};
    if (metadata.namespace !== undefined && metadata.namespace !== target.namespace && type.namespaced) {
      throw badRequest(
        "the namespace of the provided object does not match the namespace sent on the request",
      );
    }
    const name = String(metadata.name ?? "");
    this.#checkNamespace(type, target.namespace, name);
    checkName(type, name);
    if (this.#store.get(type, type.namespaced ? target.namespace : "", name) !== undefined) {
      throw alreadyExists(type, name);
    }
    this.#checkEscalation(request, name);
    const object = this.#fresh(type, type.namespaced ? target.namespace : "", body, name);
    const managers = managersAfterUpdate({
      before: undefined,
      after: body,
      managers: [],
      manager: this.#managerOf(request, type),
    });
    return { status: 201, object: this.#save(request, object, managers) };
  }

  #apply(request: ObjectRequest): ObjectAnswer {
    const { resource: type, target, query } = request;
    const manager = query.get("fieldManager") ?? "";
    const options = { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
    const dryRun = query.get("dryRun");
    if (dryRun !== null && dryRun !== "All") {
      const message = `Unsupported value: ["${dryRun}"]: supported values: "All"`;
      throw invalid(options, { reason: "FieldValueNotSupported", message, field: "dryRun" });
    }
    if (manager === "") {
      const message = "Required value: is required for apply patch";
      throw invalid(options, { reason: "FieldValueRequired", message, field: "fieldManager" });
    }
    const manifest = parseManifest(request.body);
    if (manifest.apiVersion !== apiVersionOf(type) || manifest.kind !== type.kind) {
      const what = `${manifest.apiVersion ?? "/"}`;
      const found = what === "/"
        ? `/, Kind=${manifest.kind ?? ""}`
        : groupKind(what, String(manifest.kind ?? ""));
      throw badRequest(`invalid object type: ${found}`);
    }
    const metadata = isObject(manifest.metadata) ? manifest.metadata : {};
    if (metadata.managedFields !== undefined) throw badRequest("metadata.managedFields must be nil");
    checkFields(type, manifest);
    const namespace = type.namespaced ? target.namespace : "";
    const live = this.#store.get(type, namespace, target.name);
    if (live === undefined) this.#checkNamespace(type, target.namespace, target.name);
    const before = live ??
      this.#fresh(type, namespace, { apiVersion: manifest.apiVersion, kind: type.kind }, target.name);
    const managers = this.#managers.get(before.metadata.uid) ?? [];
    const applied = apply({
      live: before,
      managers: live === undefined ? [] : managers,
      manifest,
      manager: { name: manager, apiVersion: apiVersionOf(type), time: this.#time() },
      force: query.get("force") === "true",
    });
    if ((metadata.name ?? target.name) !== target.name) {
      const names = `(${metadata.name}) does not match the name on the URL (${target.name})`;
      throw badRequest(`the name of the object ${names}`);
    }
    if (type.namespaced && (metadata.namespace ?? namespace) !== namespace) {
      throw badRequest(
        "the namespace of the provided object does not match the namespace sent on the request",
      );
    }
    checkName(type, target.name);
    this.#checkEscalation(request, target.name);
    const object = applied.object as StoredObject;
    const isSame = isDeepStrictEqual(encodeManagers(applied.managers), encodeManagers(managers)) &&
      isDeepStrictEqual(object, before);
    if (live !== undefined && isSame) return { status: 200, object: live };
    return { status: live === undefined ? 201 : 200, object: this.#save(request, object, applied.managers) };
  }

  #mergePatch(request: ObjectRequest): ObjectAnswer {
    const { resource: type, contentType } = request;
    if (contentType !== "application/merge-patch+json") {
      throw new ApiFailure(415, "UnsupportedMediaType", `the body of the request was in an unknown format`);
    }
    const before = this.existing(request);
    this.#checkEscalation(request, before.metadata.name);
    const patch = parseBody(request.body, type);
    const isStatus = request.target.subresource === "status";
    const chosen = isStatus
      ? { status: patch.status }
      : Object.fromEntries(Object.entries(patch).filter(([key]) => key !== "status"));
    const after = mergePatch(before, chosen) as StoredObject;
    const managers = managersAfterUpdate({
      before,
      after,
      managers: this.#managers.get(before.metadata.uid) ?? [],
      manager: { ...this.#managerOf(request, type), ...(isStatus ? { subresource: "status" } : {}) },
    });
    return { status: 200, object: this.#save(request, after, managers) };
  }

  #delete(request: ObjectRequest): ObjectAnswer {
    const { resource: type, target, query } = request;
    const object = this.existing(request);
    const { name, uid } = object.metadata;
    const options = request.body === "" ? {} : parseBody(request.body, type);
    const { uid: wanted = uid } = isObject(options.preconditions) ? options.preconditions : {};
    if (wanted !== uid) {
      throw new ApiFailure(
        409,
        "Conflict",
        `Operation cannot be fulfilled on ${
          qualified(type)
        } "${name}": the UID in the precondition (${wanted}) does ` +
          `not match the UID in record (${uid}). The object might have been deleted and then recreated`,
        detailsOf(type, name),
      );
    }
    const isDry = query.get("dryRun") === "All";
    const grace = String(options.gracePeriodSeconds ?? query.get("gracePeriodSeconds") ?? "");
    const remains = this.#whatRemains(type, object, grace);
    if (remains !== undefined) {
      return {
        status: 200,
        object: isDry ? remains : this.#store.put(type, object.metadata.namespace ?? "", remains),
      };
    }
    if (!isDry) this.#store.remove(type, type.namespaced ? target.namespace : "", name);
    if (type.plural === "pods" || type.plural === "serviceaccounts") return { status: 200, object };
    const details = { ...detailsOf(type, name), uid };
    return {
      status: 200,
      object: { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details },
    };
  }

  /** A real cluster empties a namespace first, and a kubelet stops a pod on a node. Neither exists here. */
  #whatRemains(type: Resource, object: StoredObject, grace: string): StoredObject | undefined {
    const deletionTimestamp = this.#time();
    if (type.plural === "namespaces") {
      return {
        ...object,
        metadata: { ...object.metadata, deletionTimestamp },
        status: { phase: "Terminating" },
      };
    }
    const isOnNode = isObject(object.spec) && typeof object.spec.nodeName === "string";
    if (type.plural !== "pods" || !isOnNode || grace === "0") return undefined;
    return { ...object, metadata: { ...object.metadata, deletionTimestamp, deletionGracePeriodSeconds: 30 } };
  }

  #fresh(type: Resource, namespace: string, body: Json, name: string): StoredObject {
    const metadata = isObject(body.metadata) ? body.metadata : {};
    const { stringData, ...rest } = body;
    const isNamespace = type.plural === "namespaces";
    const labels = isNamespace
      ? { ...metadata.labels as Json, "kubernetes.io/metadata.name": name }
      : metadata.labels;
    return {
      ...rest,
      apiVersion: apiVersionOf(type),
      kind: type.kind,
      metadata: {
        ...metadata,
        name,
        ...(namespace === "" ? {} : { namespace }),
        uid: crypto.randomUUID(),
        creationTimestamp: this.#time(),
        ...(labels === undefined ? {} : { labels: labels as Record<string, string> }),
      },
      ...(isObject(stringData) ? { data: { ...rest.data as Json, ...encodeAll(stringData) } } : {}),
      ...(type.plural === "secrets" && rest.type === undefined ? { type: "Opaque" } : {}),
      ...(type.plural === "pods" ? { status: { phase: "Pending" } } : {}),
      ...(isNamespace ? { spec: { finalizers: ["kubernetes"] }, status: { phase: "Active" } } : {}),
    };
  }

  #save(
    { resource: type, query }: ObjectRequest,
    object: StoredObject,
    managers: readonly Manager[],
  ): StoredObject {
    const { managedFields: _, ...metadata } = object.metadata;
    const managed = managers.length === 0
      ? metadata
      : { ...metadata, managedFields: encodeManagers(managers) };
    const saved: StoredObject = { ...object, metadata: managed };
    if (query.get("dryRun") === "All") return saved;
    this.#managers.set(object.metadata.uid, managers);
    return this.#store.put(type, object.metadata.namespace ?? "", saved);
  }

  #checkNamespace(type: Resource, namespace: string, name: string): void {
    if (!type.namespaced) return;
    const found = this.#store.get(resource("namespaces"), "", namespace);
    if (found === undefined) throw notFound(resource("namespaces"), namespace);
    if (found.metadata.deletionTimestamp === undefined) return;
    const message = `unable to create new content in namespace ${namespace} because it is being terminated`;
    throw new ApiFailure(403, "Forbidden", `${qualified(type)} "${name}" is forbidden: ${message}`, {
      ...detailsOf(type, name),
      causes: [{
        reason: "NamespaceTerminating",
        message: `namespace ${namespace} is being terminated`,
        field: "metadata.namespace",
      }],
    });
  }

  /** Only the administrator can grant rights here. The real server also lets users grant their own rights. */
  #checkEscalation({ resource: type, user }: ObjectRequest, name: string): void {
    if (type.group !== "rbac.authorization.k8s.io" || user.groups.includes("system:masters")) return;
    const message = `user "${user.username}" is attempting to grant RBAC permissions not currently held`;
    throw new ApiFailure(
      403,
      "Forbidden",
      `${qualified(type)} "${name}" is forbidden: ${message}`,
      detailsOf(type, name),
    );
  }

  #managerOf({ query, userAgent }: ObjectRequest, type: Resource): Omit<Manager, "operation" | "fields"> {
    const name = query.get("fieldManager") ?? userAgent.split("/")[0] ?? "";
    return { name, apiVersion: apiVersionOf(type), time: this.#time() };
  }

  #time(): string {
    return timestamp(Math.floor(this.#now() / 1000));
  }
}

/** JSON merge patch (RFC 7386). */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key], value);
  }
  return merged;
}

function encodeAll(texts: Json): Json {
  return Object.fromEntries(
    Object.entries(texts).map(([key, text]) => [key, new TextEncoder().encode(String(text)).toBase64()]),
  );
}
