import { OpenIdServer, SCOPE } from "../e2e/open_id_server.ts";
import { brokerCommand } from "../stage/service_command.ts";
import { freePort } from "../stage/free_port.ts";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";
import { commandRate } from "./command_rate.ts";
import { McpHttpUser } from "./mcp_http_user.ts";
import { quickLogin } from "./quick_login.ts";
import type { Row } from "./row.ts";
import { quantile } from "./statistics.ts";

/** As many as a broker may have, of as many callers as it takes. */
const OPEN = 200;
const PER_USER = 20;
const ACTIVE = 8;
const COMMANDS = 100;
const WARM_UP = 75;
const ROUNDS = 4;
const TOKEN_SECONDS = 3600;
const MAX_MEGABYTES = 250;

interface OpenSession {
  readonly user: McpHttpUser;
  readonly id: string;
}

/** One broker with all sessions that it may have, over MCP and HTTPS, because it takes several callers to open them. */
export async function benchManySessions(stage: Stage): Promise<readonly Row[]> {
  await quickLogin(stage);
  const agents = Array.from({ length: OPEN / PER_USER }, (_, index) => ({
    id: `agent-${index}`,
    secret: `secret-of-agent-${index}`,
  }));
  await using provider = await OpenIdServer.start({ agents, groups: ["local"], tokenSeconds: TOKEN_SECONDS });
  const listen = `127.0.0.1:${freePort()}`;
  const url = `https://${listen}/mcp`;
  await editConfig(stage.init.broker_config, [
    { path: ["listen"], value: listen },
    { path: ["resource_url"], value: url },
    {
      path: ["oauth"],
      value: { issuer: provider.issuer, audience: url, required_scopes: [SCOPE], groups_claim: "groups" },
    },
  ]);
  await using broker = await stage.start(await brokerCommand(stage.init.broker_config, "serve-mcp-http"));
  using http = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(stage.init.mtls_ca)] });
  const idle = await broker.residentBytes();
  const open = await Promise.all(agents.map(async (agent) => {
    const user = await McpHttpUser.connect({ url, issuer: provider.issuer, agent, http });
    const sessions: OpenSession[] = [];
    while (sessions.length < PER_USER) sessions.push(await openSession(user));
    return sessions;
  }));
  const sessions = open.flat();
  // Of as many users as there are.
  const active = Array.from({ length: ACTIVE }, (_, index) => sessions[Math.floor(index * OPEN / ACTIVE)])
    .filter((session) => session !== undefined);
  await commandRate(active, WARM_UP, exec);
  const times: number[] = [];
  let resident = await broker.residentBytes();
  for (let round = 0; round < ROUNDS; round++) {
    times.push(...(await commandRate(active, COMMANDS, exec)).times);
    resident = Math.max(resident, await broker.residentBytes());
  }
  // All that were opened are still there, or less would have been measured.
  await Promise.all(open.map(async (own) => {
    for (const session of own) await exec(session);
  }));
  const sorted = times.toSorted((a, b) => a - b);
  const [p50, p99] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
  return [
    {
      what: `broker with ${OPEN} sessions of ${agents.length} users, at most`,
      measured: `${(resident / 1e6).toFixed(0)} MB`,
      baseline: `${(idle / 1e6).toFixed(0)} MB without`,
      ratio: (resident / idle).toFixed(2),
      target: `under ${MAX_MEGABYTES} MB`,
      met: resident < MAX_MEGABYTES * 1e6,
    },
    {
      what: `ssh_session_exec, p99 of ${ACTIVE} active among ${OPEN} sessions`,
      measured: `${p99.toFixed(1)} ms`,
      baseline: `${p50.toFixed(1)} ms p50`,
      ratio: (p99 / p50).toFixed(2),
      target: "below 3",
      met: p99 < 3 * p50,
    },
  ];
}

async function openSession(user: McpHttpUser): Promise<OpenSession> {
  const { session_id: id } = await user.call("ssh_session_open", { server: HOST });
  return { user, id: String(id) };
}

async function exec({ user, id }: OpenSession): Promise<void> {
  await user.call("ssh_session_exec", { session_id: id, command: "true" });
}
