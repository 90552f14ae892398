import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import type { BrokerSocket } from "@gateway/broker/config";
import { createCertificateAuthority, issueLeaf, type X509Authority } from "../../ctl/identities/x509.ts";
import { createTestCa, PRINCIPAL } from "../ssh_target/certificates.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { currentUser, startSshTarget } from "../ssh_target/target.ts";
import { recordsOf } from "../stage/audit.ts";
import { freePort } from "../stage/free_port.ts";
import { brokerCommand, type ServiceCommand } from "../stage/service_command.ts";
import { FakeSigner } from "./fake_signer.ts";

export interface BrokerKeys {
  readonly approvalWaitSeconds?: number;
  readonly approvalViaElicitation?: boolean;
  /** The value of `stop_on_disconnect` for the host in the signer's policy. */
  readonly stopOnDisconnect?: boolean;
  /** The sockets. Paths are relative to the scene's directory. */
  readonly sockets?: readonly BrokerSocket[];
}

/** The environment of a broker: keys, config, a signer that allows nearly every command, and a host. */
export class BrokerScene implements AsyncDisposable {
  readonly dir: string;
  readonly pki: X509Authority;
  readonly signer: FakeSigner;
  readonly target: SshTarget;
  readonly configPath: string;
  readonly listen: string;

  private constructor(
    parts: Pick<BrokerScene, "dir" | "pki" | "signer" | "target" | "configPath" | "listen">,
  ) {
    this.dir = parts.dir;
    this.pki = parts.pki;
    this.signer = parts.signer;
    this.target = parts.target;
    this.configPath = parts.configPath;
    this.listen = parts.listen;
  }

  static async create(keys: BrokerKeys = {}): Promise<BrokerScene> {
    const dir = await Deno.makeTempDir({ prefix: "broker-scene-" });
    for (const folder of ["target", "audit"]) await Deno.mkdir(`${dir}/${folder}`);
    const ca = createTestCa();
    const target = await startSshTarget({
      caPublicKeyLine: ca.publicKeyLine,
      principals: { [currentUser()]: [PRINCIPAL] },
      dir: `${dir}/target`,
    });
    const pki = await createCertificateAuthority({ commonName: "test CA" });
    const server = await issueLeaf(pki, {
      subject: "CN=signer",
      usage: "server",
      subjectAltNames: ["127.0.0.1"],
    });
    const addr = `127.0.0.1:${target.port}`;
    const host = {
      addr,
      user: target.user,
      host_key: target.hostKeyLine,
      ...(keys.stopOnDisconnect === true ? { stop_on_disconnect: true } : {}),
    };
    const signer = await FakeSigner.start({ tls: server, clientCa: pki.certPem, ca, hosts: { web01: host } });
    const leaf = await issueLeaf(pki, {
      subject: "CN=broker-1",
      usage: "both",
      subjectAltNames: ["127.0.0.1"],
    });
    const listen = `127.0.0.1:${freePort()}`;
    const config = {
      listen,
      server_cert: `${dir}/broker.crt`,
      server_key: `${dir}/broker.key`,
      client_ca: `${dir}/ca.crt`,
      signer: {
        url: signer.url,
        client_cert: `${dir}/broker.crt`,
        client_key: `${dir}/broker.key`,
        ca: `${dir}/ca.crt`,
        approval_wait_seconds: keys.approvalWaitSeconds ?? 0,
      },
      approval_via_elicitation: keys.approvalViaElicitation ?? false,
      audit_log: `${dir}/audit/audit.log`,
      audit_key: `${dir}/audit.seed`,
      monitor_listen: `127.0.0.1:${freePort()}`,
      networks: [addr],
      sockets: (keys.sockets ?? []).map((socket) => ({ ...socket, path: `${dir}/${socket.path}` })),
    };
    await Deno.writeTextFile(`${dir}/broker.crt`, leaf.certPem);
    await Deno.writeTextFile(`${dir}/broker.key`, leaf.keyPem, { mode: 0o600 });
    await Deno.writeTextFile(`${dir}/ca.crt`, pki.certPem);
    await Deno.writeFile(`${dir}/audit.seed`, crypto.getRandomValues(new Uint8Array(32)), { mode: 0o600 });
    const configPath = `${dir}/config.json`;
    await Deno.writeTextFile(configPath, JSON.stringify(config));
    return new BrokerScene({ dir, pki, signer, target, configPath, listen });
  }

  /** A client of the HTTP frontend. */
  async agent(subject = "CN=agent-1"): Promise<JsonClient> {
    const { certPem: cert, keyPem: key } = await issueLeaf(this.pki, { subject, usage: "client" });
    const baseUrl = `https://${this.listen}`;
    return new JsonClient({
      clock: systemClock,
      baseUrl,
      cert,
      key,
      ca: this.pki.certPem,
      timeoutMs: 60_000,
    });
  }

  command(frontend: "serve-http" | "serve-mcp"): Promise<ServiceCommand> {
    return brokerCommand(this.configPath, frontend);
  }

  records(log = "audit.log"): Promise<readonly Record<string, unknown>[]> {
    return recordsOf(`${this.dir}/audit/${log}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.signer.close();
    await this.target.close();
    await Deno.remove(this.dir, { recursive: true });
  }
}
