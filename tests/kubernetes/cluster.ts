import { poll } from "../stage/poll.ts";
import { Api, type ApiCredential, type KubernetesObject } from "./api.ts";
import type { ClusterBackend } from "./backend.ts";

export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

export interface Account {
  readonly namespace: string;
  readonly name: string;
}

export interface TokenOptions {
  /** Default 600, the minimum. */
  readonly expirationSeconds?: number;
  readonly boundObjectRef?: KubernetesObject;
}

/** A pod that appears to run when it is read through the API. */
export interface RunningPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** The log of each container, by the container's name. */
  readonly containers: Readonly<Record<string, string>>;
}

/** The files that a signer's config names for a cluster. */
export interface ClusterFiles {
  readonly api_server: string;
  readonly ca_cert: string;
  readonly token_file: string;
}

const RBAC = "rbac.authorization.k8s.io";

/**
 * An API server with a handle for tests. Several test files can use the same server at the same time. Each
 * creates its own namespaces, and names objects without a namespace with {@linkcode Cluster.uniqueName}.
 */
export class Cluster implements AsyncDisposable {
  readonly kind: ClusterBackend["kind"];
  /** For example `https://127.0.0.1:6443`. */
  readonly apiServer: string;
  readonly caPem: string;
  readonly admin: Api;
  readonly auditLog: string;
  readonly #backend: ClusterBackend;
  readonly #clients = new DisposableStack();
  readonly #logs = new Map<string, string>();
  #node: Promise<string> | undefined;

  constructor(backend: ClusterBackend) {
    this.#backend = backend;
    this.kind = backend.kind;
    this.apiServer = backend.apiServer;
    this.caPem = backend.caPem;
    this.auditLog = backend.auditLog;
    this.admin = this.connect(backend.admin);
  }

  /** A client, optionally with a credential. The cluster closes it. */
  connect(credential: ApiCredential = {}): Api {
    return this.#clients.use(new Api(this.apiServer, this.caPem, credential));
  }

  /** A client with a new token of the account. */
  async connectAs(account: Account, options?: TokenOptions): Promise<Api> {
    return this.connect({ token: await this.mintToken(account, options) });
  }

  /** A name that no other object has. */
  uniqueName(prefix: string): string {
    return `${prefix}-${crypto.randomUUID().slice(0, 8)}`;
  }

  /** Creates a namespace for a test, and returns its name. */
  async createNamespace(prefix = "test"): Promise<string> {
    const name = this.uniqueName(prefix);
    await this.create("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
    return name;
  }

  async createAccount(namespace: string, name: string): Promise<Account> {
    await this.create(`/api/v1/namespaces/${namespace}/serviceaccounts`, {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name },
    });
    return { namespace, name };
  }

  /** Grants an account rights in a namespace, by default its own, with a Role and a RoleBinding. */
  async grantRole(
    account: Account,
    rules: readonly PolicyRule[],
    namespace = account.namespace,
  ): Promise<void> {
    await this.#grant(`/apis/${RBAC}/v1/namespaces/${namespace}`, "Role", account, rules);
  }

  /** Grants an account rights in the whole cluster, with a ClusterRole and a ClusterRoleBinding. */
  async grantClusterRole(account: Account, rules: readonly PolicyRule[]): Promise<void> {
    await this.#grant(`/apis/${RBAC}/v1`, "ClusterRole", account, rules);
  }

  /**
   * Creates the account of a signer. It may only create tokens of the accounts and, with `leases`, create and
   * delete the Secrets that those tokens are bound to.
   */
  async createMinter(
    namespace: string,
    accounts: readonly Account[],
    { leases = false }: { readonly leases?: boolean } = {},
  ): Promise<Account> {
    const minter = await this.createAccount(namespace, this.uniqueName("minter"));
    for (const of of new Set(accounts.map((account) => account.namespace))) {
      const resourceNames = accounts.filter((account) => account.namespace === of).map(({ name }) => name);
      await this.grantRole(minter, [
        { apiGroups: [""], resources: ["serviceaccounts/token"], verbs: ["create"], resourceNames },
        ...(leases ? [{ apiGroups: [""], resources: ["secrets"], verbs: ["create", "delete"] }] : []),
      ], of);
    }
    return minter;
  }

  async mintToken(account: Account, options: TokenOptions = {}): Promise<string> {
    const { expirationSeconds = 600, boundObjectRef } = options;
    const answer = await this.create(
      `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`,
      {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: { expirationSeconds, ...(boundObjectRef === undefined ? {} : { boundObjectRef }) },
      },
    );
    const { token } = answer.status as { readonly token: string };
    return token;
  }

  /** Writes the files that a signer needs to create tokens of an account into a directory. */
  async writeFiles(folder: string, minter: Account): Promise<ClusterFiles> {
    const stem = `${folder}/${this.uniqueName("cluster")}`;
    await Deno.writeTextFile(`${stem}.ca.crt`, this.caPem);
    await Deno.writeTextFile(
      `${stem}.token`,
      `${await this.mintToken(minter, { expirationSeconds: 3600 })}\n`,
      {
        mode: 0o600,
      },
    );
    return { api_server: this.apiServer, ca_cert: `${stem}.ca.crt`, token_file: `${stem}.token` };
  }

  /** Creates a pod that runs and has written logs. */
  async runPod({ namespace, name, labels, containers }: RunningPod): Promise<KubernetesObject> {
    this.#node ??= this.#backend.startNode(this.#logs);
    const names = Object.keys(containers);
    const path = `/api/v1/namespaces/${namespace}/pods`;
    await this.create(path, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, ...(labels === undefined ? {} : { labels }) },
      spec: {
        nodeName: await this.#node,
        containers: names.map((container) => ({ name: container, image: "registry.example/app:1" })),
      },
    });
    for (const container of names) this.writeLog({ namespace, name }, container, containers[container] ?? "");
    const startedAt = new Date().toISOString().replace(/\.\d+Z$/, "Z");
    return await this.admin.must({
      method: "PATCH",
      path: `${path}/${name}/status`,
      contentType: "application/merge-patch+json",
      body: {
        status: {
          phase: "Running",
          startTime: startedAt,
          containerStatuses: names.map((container) => ({
            name: container,
            image: "registry.example/app:1",
            imageID: "",
            ready: true,
            restartCount: 0,
            state: { running: { startedAt } },
          })),
        },
      },
    });
  }

  writeLog(
    pod: { readonly namespace: string; readonly name: string },
    container: string,
    text: string,
  ): void {
    this.#logs.set(`${pod.namespace}/${pod.name}/${container}`, text);
  }

  /** Creates the custom resource `widgets` in a new group. Returns the group when the server serves it. */
  async createCustomResource(plural: string, kind: string): Promise<string> {
    const group = `${this.uniqueName("test")}.example`;
    const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    await this.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `${plural}.${group}` },
      spec: {
        group,
        names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
        scope: "Namespaced",
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    });
    await poll(async () => (await this.admin.ask({ path: `/apis/${group}/v1/${plural}` })).status === 200, {
      what: `the API server to have ${plural}`,
      intervalMs: 50,
    });
    return group;
  }

  async create(path: string, object: KubernetesObject): Promise<KubernetesObject> {
    return await this.admin.must({ method: "POST", path, body: object });
  }

  /** Applies an object as the administrator, as `kubectl apply --server-side` does. */
  async apply(manifest: KubernetesObject): Promise<KubernetesObject> {
    const { apiVersion = "v1", kind = "", metadata: { name, namespace } = {} } = manifest;
    const base = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
    const place = namespace === undefined ? "" : `/namespaces/${namespace}`;
    const path = `${base}${place}/${kind.toLowerCase()}s/${name}?fieldManager=admin&force=true`;
    return await this.admin.must({ method: "PATCH", path, body: manifest });
  }

  async auditEvents(): Promise<readonly KubernetesObject[]> {
    const lines = (await Deno.readTextFile(this.auditLog)).split("\n");
    // The last line is empty or incomplete.
    return lines.slice(0, -1).map((line) => JSON.parse(line));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#clients.dispose();
    await this.#backend[Symbol.asyncDispose]();
  }

  async #grant(
    path: string,
    kind: "Role" | "ClusterRole",
    { namespace, name }: Account,
    rules: readonly PolicyRule[],
  ): Promise<void> {
    const role = this.uniqueName(name);
    const metadata = { name: role };
    await this.create(`${path}/${kind.toLowerCase()}s`, { apiVersion: `${RBAC}/v1`, kind, metadata, rules });
    await this.create(`${path}/${kind.toLowerCase()}bindings`, {
      apiVersion: `${RBAC}/v1`,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: RBAC, kind, name: role },
      subjects: [{ kind: "ServiceAccount", namespace, name }],
    });
  }
}
