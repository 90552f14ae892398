import type { ApiAnswer } from "@gateway/shared/kubernetes";
import { answered, type Asked, MINTED, startClusterSigner } from "./cluster_scene.ts";

type SceneOptions = NonNullable<Parameters<typeof startClusterSigner>[0]>;

/** The Secrets of an API server that can fail, and the tokens bound to them. */
export class FakeSecrets {
  readonly uids = new Map<string, string>();
  /** Promises that delay an answer, by method and resource: `POST secrets`. */
  readonly held = new Map<string, Promise<unknown>>();
  /** If set, the answer to every request. */
  outage: ApiAnswer | undefined;
  #made = 0;

  readonly reply = async (asked: Asked): Promise<ApiAnswer> => {
    const { method, path } = asked;
    const parts = path.split("/");
    await this.held.get(`${method} ${parts[5]}`);
    if (this.outage !== undefined) return this.outage;
    if (parts[5] !== "secrets") return this.#mint(asked);
    return method === "POST" ? this.#create(asked) : this.#delete(parts[6] ?? "", asked);
  };

  #create({ body }: Asked): ApiAnswer {
    const { name } = (body as { metadata: { name: string } }).metadata;
    if (this.uids.has(name)) return answered(409, { kind: "Status", message: "already exists" });
    const uid = `uid-${++this.#made}`;
    this.uids.set(name, uid);
    return answered(201, { metadata: { name, uid } });
  }

  #delete(name: string, { body }: Asked): ApiAnswer {
    const uid = this.uids.get(name);
    if (uid === undefined) return answered(404, { kind: "Status", message: "not found" });
    const wanted = (body as { preconditions?: { uid: string } } | undefined)?.preconditions?.uid ?? uid;
    if (wanted !== uid) return answered(409, { kind: "Status", message: "the UID does not match" });
    this.uids.delete(name);
    return answered(200, {});
  }

  #mint({ body }: Asked): ApiAnswer {
    const { spec } = body as { spec: { boundObjectRef: { name: string; uid: string } } };
    const uid = this.uids.get(spec.boundObjectRef.name);
    if (uid === undefined) return answered(404, { kind: "Status", message: "secrets not found" });
    return uid === spec.boundObjectRef.uid ? MINTED : answered(409, { kind: "Status", message: "UID" });
  }
}

/** A signer whose tokens are bound to Secrets. */
export async function startLeaseSigner(
  { secrets = new FakeSecrets(), ...options }: SceneOptions & { readonly secrets?: FakeSecrets } = {},
) {
  const signer = await startClusterSigner({
    ...options,
    cluster: { token_binding: { namespace: "gateway" }, ...options.cluster },
    reply: secrets.reply,
  });
  const get = (end_user: string, changes: Record<string, unknown> = {}, cn?: string) =>
    signer.act("get pods web/web-1", { end_user, ...changes }, cn);
  /** The requests since the last call, for example `DELETE secrets`. */
  const requests = () =>
    signer.asked.splice(0).map(({ method, path }) => `${method} ${path.split("/").slice(5, 6).join("/")}`);
  return { ...signer, secrets, get, requests };
}
