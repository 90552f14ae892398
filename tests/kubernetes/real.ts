import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { readProcFile } from "../stage/proc_file.ts";
import { Api } from "./api.ts";
import type { ClusterBackend } from "./backend.ts";
import { type ContainerLogs, startKubelet } from "./kubelet.ts";

/** The address and credentials of a server, from `ready.json` of its directory. */
interface Settings {
  readonly apiServer: string;
  readonly caPem: string;
  readonly admin: { readonly cert: string; readonly key: string };
  readonly kubelet: { readonly cert: string; readonly key: string };
}

/**
 * Runs etcd and the API server until the process that started them has ended or `stop` exists. The API server
 * stops first, because without etcd it ignores signals for minutes.
 */
const SCRIPT = `
"$ASSETS/etcd" --data-dir etcd --unsafe-no-fsync --logger zap --log-level error \\
  --listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" \\
  --listen-peer-urls "$PEER" --initial-advertise-peer-urls "$PEER" --initial-cluster "default=$PEER" \\
  > etcd.log 2>&1 &
etcd=$!
"$ASSETS/kube-apiserver" --etcd-servers="$ETCD" --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \\
  --secure-port="$PORT" --tls-cert-file=server.crt --tls-private-key-file=server.key --client-ca-file=ca.crt \\
  --service-account-issuer=https://kubernetes.default.svc --api-audiences=https://kubernetes.default.svc \\
  --service-account-key-file=accounts.crt --service-account-signing-key-file=accounts.key \\
  --authorization-mode=Node,RBAC --service-cluster-ip-range=10.0.0.0/24 --endpoint-reconciler-type=none \\
  --kubelet-certificate-authority=ca.crt --kubelet-client-certificate=kubelet_client.crt \\
  --kubelet-client-key=kubelet_client.key --kubelet-preferred-address-types=InternalIP \\
  --enable-admission-plugins=NodeRestriction --disable-admission-plugins=ServiceAccount \\
  --audit-log-path=audit.log --audit-policy-file=audit_policy.json > apiserver.log 2>&1 &
server=$!
while kill -0 "$PARENT" && kill -0 $server && kill -0 $etcd && [ ! -e stop ]; do sleep 0.5; done
touch stopped
kill -9 $server
kill -9 $etcd
wait
cd /
[ -n "$KEEP" ] || rm -rf "$DIR"
`;

/** The directory of kube-apiserver and etcd, or the reason why there is none. */
export function findAssets(): { readonly folder: string } | { readonly problem: string } {
  const folder = Deno.env.get("KUBEBUILDER_ASSETS") ?? "";
  if (folder === "") return { problem: "KUBEBUILDER_ASSETS is not set" };
  for (const program of ["kube-apiserver", "etcd"]) {
    try {
      if (!Deno.statSync(`${folder}/${program}`).isFile) {
        return { problem: `${folder}/${program} is no file` };
      }
    } catch {
      return { problem: `no ${program} in KUBEBUILDER_ASSETS` };
    }
  }
  return { folder };
}

/** The API server that all tests of this process share. The first test starts it. */
export async function connectReal(assets: string): Promise<ClusterBackend> {
  const folder = await sharedFolder();
  try {
    await Deno.mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return connect(folder, await waitForSettings(folder));
  }
  return connect(folder, await start(folder, assets));
}

/** Stops the API server of this process, if any, for programs that continue or must leave no process. */
export async function stopReal(): Promise<void> {
  const folder = await sharedFolder();
  if (!await isThere(folder)) return;
  await Deno.writeTextFile(`${folder}/stop`, "");
  await poll(async () => !await isThere(folder), { what: "the API server to end" });
}

async function start(folder: string, assets: string): Promise<Settings> {
  const { settings, port } = await writeIdentities(folder);
  const url = () => `http://127.0.0.1:${freePort()}`;
  // Started in the background by a shell that exits, so that no test waits for the process.
  await new Deno.Command("setsid", {
    args: ["sh", "-c", `(${SCRIPT}) >/dev/null 2>&1 &`],
    cwd: folder,
    clearEnv: true,
    env: {
      PATH: "/usr/bin:/bin",
      HOME: folder,
      DIR: folder,
      KEEP: "",
      ASSETS: assets,
      PARENT: String(Deno.pid),
      PORT: String(port),
      ETCD: url(),
      PEER: url(),
    },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).output();
  using api = new Api(settings.apiServer, settings.caPem, settings.admin);
  await poll(async () => {
    if (await isThere(`${folder}/stopped`)) throw await startFailure(folder);
    const answer = await api.ask({ path: "/readyz" }).catch(() => undefined);
    return answer?.status === 200;
  }, { what: "the API server to be ready", intervalMs: 100 });
  await Deno.writeTextFile(`${folder}/ready.tmp`, JSON.stringify(settings), { mode: 0o600 });
  await Deno.rename(`${folder}/ready.tmp`, `${folder}/ready.json`);
  return settings;
}

async function startFailure(folder: string): Promise<Error> {
  const log = await Deno.readTextFile(`${folder}/apiserver.log`).catch(() => "");
  return new Error(`The API server has not started:\n${log.split("\n").slice(-6).join("\n")}`);
}

/** Certificates of all participants, in files for the server and in memory for its clients. */
async function writeIdentities(
  folder: string,
): Promise<{ readonly settings: Settings; readonly port: number }> {
  const authority = await createCertificateAuthority({ commonName: "test cluster CA" });
  const port = freePort();
  const loopback = ["127.0.0.1", "localhost"];
  const leaves = {
    server: { subject: "CN=kube-apiserver", usage: "server", subjectAltNames: loopback },
    admin: { subject: "O=system:masters,CN=admin", usage: "client" },
    kubelet_client: { subject: "O=system:masters,CN=kube-apiserver-kubelet-client", usage: "client" },
    kubelet: { subject: "O=system:nodes,CN=system:node:test", usage: "server", subjectAltNames: loopback },
    // Signs the tokens of ServiceAccounts. Its certificate only contains the public key.
    accounts: { subject: "CN=service-accounts", usage: "client" },
  } as const;
  const pairs: Record<string, { readonly cert: string; readonly key: string }> = {};
  for (const [name, leaf] of Object.entries(leaves)) {
    const { certPem, keyPem } = await issueLeaf(authority, leaf);
    pairs[name] = { cert: certPem, key: keyPem };
    await Deno.writeTextFile(`${folder}/${name}.crt`, certPem);
    await Deno.writeTextFile(`${folder}/${name}.key`, keyPem, { mode: 0o600 });
  }
  await Deno.writeTextFile(`${folder}/ca.crt`, authority.certPem);
  const policy = { apiVersion: "audit.k8s.io/v1", kind: "Policy", rules: [{ level: "Metadata" }] };
  await Deno.writeTextFile(`${folder}/audit_policy.json`, JSON.stringify(policy));
  const { admin, kubelet } = pairs;
  if (admin === undefined || kubelet === undefined) throw new TypeError("no administrator");
  const settings = { apiServer: `https://127.0.0.1:${port}`, caPem: authority.certPem, admin, kubelet };
  return { settings, port };
}

/** Another test file of this process starts the server. */
async function waitForSettings(folder: string): Promise<Settings> {
  const { uid, mode } = await Deno.lstat(folder);
  if (uid !== Deno.uid() || ((mode ?? 0) & 0o077) !== 0) throw new Error(`${folder} is somebody else's`);
  await poll(() => isThere(`${folder}/ready.json`), {
    what: `the API server that another test starts in ${folder}`,
    intervalMs: 100,
  });
  return JSON.parse(await Deno.readTextFile(`${folder}/ready.json`));
}

function connect(folder: string, { apiServer, caPem, admin, kubelet }: Settings): ClusterBackend {
  const nodes = new AsyncDisposableStack();
  return {
    kind: "real",
    apiServer,
    caPem,
    admin,
    auditLog: `${folder}/audit.log`,
    startNode: async (logs: ContainerLogs) => {
      const { port } = nodes.use(await startKubelet({ ...kubelet, ca: caPem }, logs));
      using api = new Api(apiServer, caPem, admin);
      return await createNode(api, port);
    },
    // The server continues to run for the other tests.
    [Symbol.asyncDispose]: () => nodes.disposeAsync(),
  };
}

async function createNode(api: Api, port: number): Promise<string> {
  const name = `node-${port}-${crypto.randomUUID().slice(0, 8)}`;
  await api.must({
    method: "POST",
    path: "/api/v1/nodes",
    body: { apiVersion: "v1", kind: "Node", metadata: { name } },
  });
  await api.must({
    method: "PATCH",
    path: `/api/v1/nodes/${name}/status`,
    contentType: "application/merge-patch+json",
    body: {
      status: {
        addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
        daemonEndpoints: { kubeletEndpoint: { Port: port } },
        // Without it, the API server requests logs over SPDY.
        declaredFeatures: ["ExtendWebSocketsToKubelet"],
      },
    },
  });
  return name;
}

/**
 * The server's directory. The start time of a process (proc_pid_stat(5)) distinguishes it from a later one
 * with the same ID.
 */
async function sharedFolder(): Promise<string> {
  const stat = await readProcFile(`/proc/${Deno.pid}/stat`);
  const started = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  return `${Deno.env.get("TMPDIR") ?? "/tmp"}/gateway-kubernetes-${Deno.uid()}-${Deno.pid}-${started}`;
}

async function isThere(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
