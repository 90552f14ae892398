import assert from "node:assert/strict";
import { openToolset } from "./catalogue.ts";
import { ToolFailure } from "./run_program.ts";
import { BARE_SETTINGS, FakePorts } from "./testing/tool_bench.ts";

const URL_SETTINGS = { PROMETHEUS_URL: "http://p", LOKI_URL: "http://l", ELASTICSEARCH_URL: "http://e" };
const READY = { ...URL_SETTINGS, HTTP_ALLOWED_HOSTS: ["a.example"], DATABASE_URL: "postgres://d" };
const FILES = ["/srv/app/.git", "/home/op/.ssh/known_hosts"];

/** The tools that are off, with their reasons. */
async function off(
  { settings = {}, files = FILES, env = {}, missing = [], roots = ["/srv/app"] }: {
    readonly settings?: Partial<typeof BARE_SETTINGS>;
    readonly files?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly missing?: readonly string[];
    readonly roots?: readonly string[];
  },
) {
  const ports = Object.assign(new FakePorts(), {
    files: Object.fromEntries(files.map((path) => [path, path])),
  });
  const { runProgram } = ports;
  const toolset = openToolset({ ...BARE_SETTINGS, ...READY, ...settings }, {
    ...ports,
    redact: ports.redact,
    env: { HOME: "/home/op", KUBECONFIG: "/kube", SSH_AUTH_SOCK: "/agent", ...env },
    folders: { ...ports.folders, roots: () => Promise.resolve(roots) },
    runProgram: (request) =>
      missing.includes(request.program)
        ? Promise.reject(new ToolFailure(`program ${request.program} is not installed`))
        : runProgram(request),
  });
  const { tools, statuses } = await toolset();
  assert.deepEqual(
    tools.map(({ name }) => name),
    statuses.flatMap(({ name, available }) => available ? name : []),
  );
  return Object.fromEntries(statuses.flatMap(({ name, why }) => why === null ? [] : [[name, why]]));
}

Deno.test.each([
  { name: "nothing if all is there", given: {}, expected: {} },
  {
    name: "tools without a server",
    given: { settings: { PROMETHEUS_URL: "", LOKI_URL: "" } },
    expected: {
      query_prometheus: "PROMETHEUS_URL is not set",
      list_prometheus: "PROMETHEUS_URL is not set",
      query_loki: "LOKI_URL is not set",
      list_loki: "LOKI_URL is not set",
    },
  },
  {
    name: "http_get without hosts and approvals",
    given: { settings: { HTTP_ALLOWED_HOSTS: [], TOOL_APPROVAL_REQUIRED: false } },
    expected: { http_get: "HTTP_ALLOWED_HOSTS is not set" },
  },
  {
    name: "other servers",
    given: { settings: { ELASTICSEARCH_URL: "", DATABASE_URL: "" } },
    expected: {
      query_elasticsearch: "ELASTICSEARCH_URL is not set",
      run_db_explain: "DATABASE_URL is not set",
    },
  },
  {
    name: "tools without their program",
    given: { missing: ["git", "ssh", "kubectl"] },
    expected: {
      git_recent_changes: "program git is not installed",
      run_ssh_command: "program ssh is not installed",
      run_kubectl: "program kubectl is not installed",
    },
  },
  {
    name: "local tools without a project",
    given: { files: FILES.slice(1), roots: [] },
    expected: {
      git_recent_changes: "no directory of ALLOWED_PROJECT_ROOTS exists",
      run_local_command: "no directory of ALLOWED_PROJECT_ROOTS exists",
    },
  },
  {
    name: "ssh without a key",
    given: { env: { SSH_AUTH_SOCK: "" }, settings: { SSH_KNOWN_HOSTS: FILES[1]! } },
    expected: {
      run_ssh_command: "SSH_KEY_PATH is not set, and there is neither an SSH agent nor ~/.ssh",
    },
  },
  {
    name: "ssh without known hosts",
    given: { files: FILES.slice(0, 1) },
    expected: {
      run_ssh_command: "/home/op/.ssh/known_hosts does not exist",
    },
  },
  {
    name: "kubectl without a cluster",
    given: { env: { KUBECONFIG: "" } },
    expected: {
      run_kubectl: "KUBECONFIG is not set, and ~/.kube/config does not exist",
    },
  },
  {
    name: "not kubectl in a cluster",
    given: { env: { KUBECONFIG: "", KUBERNETES_SERVICE_HOST: "10.0.0.1" } },
    expected: {},
  },
])(
  "openToolset() turns off $name",
  async ({ given, expected }) => assert.deepEqual(await off(given), expected),
);

Deno.test("openToolset() names the setting that turns a tool off, without starting its program", async () => {
  const all = await off({ settings: { TOOLS_ENABLED: false }, missing: ["git"] });
  assert.deepEqual([Object.keys(all).length, all["git_recent_changes"]], [11, "TOOLS_ENABLED is false"]);
  const listed = await off({ settings: { ENABLED_TOOLS: ["run_kubectl", "http_get", "rm"] } });
  assert.deepEqual([Object.keys(listed).length, listed["query_loki"]], [
    9,
    "ENABLED_TOOLS does not contain it",
  ]);
});

Deno.test("openToolset() reports approvals, and checks programs again after a minute", async () => {
  const ports = new FakePorts();
  const toolset = openToolset(
    { ...BARE_SETTINGS, ENABLED_TOOLS: ["git_recent_changes", "run_kubectl"] },
    ports,
  );
  const { statuses } = await toolset();
  const guarded = statuses.flatMap(({ name, needs_approval }) => needs_approval ? name : []);
  assert.deepEqual(guarded, ["run_db_explain", "run_local_command", "run_ssh_command", "run_kubectl"]);
  await toolset();
  assert.deepEqual(ports.runs.map(({ program }) => program).sort(), ["git", "kubectl"]);
  await ports.clock.advance(60_001);
  await toolset();
  assert.deepEqual(ports.runs.map(({ program }) => program).sort(), ["git", "git", "kubectl", "kubectl"]);
});
