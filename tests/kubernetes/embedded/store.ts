import type { ObjectMetadata } from "../api.ts";
import type { Resource } from "./resources.ts";

export interface StoredObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMetadata & { readonly name: string; readonly uid: string };
  readonly [key: string]: unknown;
}

export class Store {
  readonly #objects = new Map<string, StoredObject>();
  /** Partially read lists, by their version. */
  readonly #lists = new Map<number, readonly StoredObject[]>();
  #version = 1;

  get version(): number {
    return this.#version;
  }

  get(resource: Resource, namespace: string, name: string): StoredObject | undefined {
    return this.#objects.get(keyOf(resource, namespace, name));
  }

  /** Stores an object under a new version. */
  put(resource: Resource, namespace: string, object: StoredObject): StoredObject {
    this.#version += 1;
    const kept = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#objects.set(keyOf(resource, namespace, object.metadata.name), kept);
    return kept;
  }

  remove(resource: Resource, namespace: string, name: string): void {
    this.#version += 1;
    this.#objects.delete(keyOf(resource, namespace, name));
  }

  /** All objects of a namespace (empty: of all namespaces), sorted by namespace and name. */
  list(resource: Resource, namespace: string): readonly StoredObject[] {
    const prefix = keyOf(resource, namespace, "").replace(/\/\/$/, "/");
    return [...this.#objects].filter(([key]) => key.startsWith(prefix))
      .toSorted(([a], [b]) => a < b ? -1 : 1).map(([, object]) => object);
  }

  /** Keeps a list for requests of its remaining parts. */
  keepList(version: number, items: readonly StoredObject[]): void {
    this.#lists.set(version, items);
  }

  keptList(version: number): readonly StoredObject[] | undefined {
    return this.#lists.get(version);
  }
}

function keyOf({ group, plural }: Resource, namespace: string, name: string): string {
  return `${group}/${plural}/${namespace}/${name}`;
}
