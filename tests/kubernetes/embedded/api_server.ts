import { appendFileSync } from "node:fs";
import type { ContainerLogs } from "../kubelet.ts";
import { parseBody } from "./bodies.ts";
import { Objects } from "./objects.ts";
import { readPodLog } from "./pod_log.ts";
import { type Authorization, authorize, mayRead, type User } from "./rbac.ts";
import { type ApiTarget, parseTarget } from "./request.ts";
import { findResource } from "./find_resource.ts";
import { REVIEWS } from "./reviews.ts";
import { ApiFailure, methodNotAllowed, qualified, unauthorized } from "./status.ts";
import { Store } from "./store.ts";
import { createTokenIssuer, type TokenIssuer } from "./tokens.ts";

export interface IncomingRequest {
  readonly method: string;
  readonly url: URL;
  readonly authorization: string | undefined;
  readonly userAgent: string;
  readonly contentType: string;
  readonly body: string;
  /** The subject of a client certificate from the server's CA. */
  readonly peer: { readonly CN: string; readonly O?: string } | undefined;
}

export interface OutgoingAnswer {
  readonly status: number;
  readonly contentType?: string;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export interface ApiServerOptions {
  readonly auditLog: string;
  readonly now: () => number;
}

const ANONYMOUS: User = { username: "system:anonymous", groups: ["system:unauthenticated"] };

const PLAIN = "text/plain; charset=utf-8";

/** An API server in memory: authentication, authorization, answers, and an audit log. */
export class ApiServer {
  readonly #store: Store;
  readonly #objects: Objects;
  readonly #tokens: TokenIssuer;
  readonly #options: ApiServerOptions;
  #logs: ContainerLogs = new Map();

  private constructor(store: Store, tokens: TokenIssuer, options: ApiServerOptions) {
    this.#store = store;
    this.#tokens = tokens;
    this.#options = options;
    this.#objects = new Objects(store, options.now);
  }

  static async create(options: ApiServerOptions): Promise<ApiServer> {
    const store = new Store();
    return new ApiServer(store, await createTokenIssuer(store, options.now), options);
  }

  useLogs(logs: ContainerLogs): void {
    this.#logs = logs;
  }

  /** Answers a request. Failures are answers too. */
  async answer(request: IncomingRequest): Promise<OutgoingAnswer> {
    const event = new AuditEvent(this.#options, request);
    const answer = await this.#act(request, event).catch((error: unknown) => {
      if (!(error instanceof ApiFailure)) throw error;
      return json(error.code, error.status);
    });
    event.complete(answer.status);
    return answer;
  }

  async #act(request: IncomingRequest, event: AuditEvent): Promise<OutgoingAnswer> {
    const { method, url } = request;
    const user = await this.#authenticate(request);
    const target = parseTarget(method, url);
    event.receive(user, target);
    if (target === undefined) return readPath(user, url.pathname, event);
    const authorization = authorize(this.#store, user, attributesOf(target));
    event.decide(authorization);
    if (!authorization.allowed) throw forbidden(user, target);

    const review = REVIEWS[`${target.group}/${target.plural}`];
    if (review !== undefined && target.version === "v1") {
      if (target.verb !== "create") throw methodNotAllowed();
      return json(
        201,
        review(this.#store, user, parseBody(request.body, { kind: target.plural }), this.#options.now()),
      );
    }
    const resource = findResource(this.#store, target.group, target.version, target.plural);
    if (resource === undefined) return { status: 404, contentType: PLAIN, body: "404 page not found\n" };
    const objectRequest = { ...request, target, resource, user, query: url.searchParams };
    switch (`${target.plural}/${target.subresource}`) {
      case "serviceaccounts/token":
        return await this.#mint(objectRequest, event);
      case "pods/log": {
        if (target.verb !== "get") throw methodNotAllowed();
        const text = readPodLog(this.#objects.existing(objectRequest), url.searchParams, this.#logs);
        return text === undefined
          ? { status: 204, body: "" }
          : { status: 200, contentType: "text/plain", body: text };
      }
      default: {
        if (target.subresource !== "" && target.subresource !== "status") {
          throw new ApiFailure(404, "NotFound", "the server could not find the requested resource", {});
        }
        const { status, object } = this.#objects.handle(objectRequest);
        return json(status, object);
      }
    }
  }

  async #mint(request: Parameters<Objects["existing"]>[0], event: AuditEvent): Promise<OutgoingAnswer> {
    if (request.target.verb !== "create") throw methodNotAllowed();
    const body = parseBody(request.body, { kind: "TokenRequest" });
    const { id, answer } = await this.#tokens.mint(this.#objects.existing(request), body);
    event.annotate("authentication.kubernetes.io/issued-credential-id", `JTI=${id}`);
    return json(201, answer);
  }

  async #authenticate({ authorization, peer }: IncomingRequest): Promise<User> {
    if (peer !== undefined) {
      return { username: peer.CN, groups: [...peer.O === undefined ? [] : [peer.O], "system:authenticated"] };
    }
    if (authorization === undefined) return ANONYMOUS;
    const [, token = ""] = /^Bearer\s+(\S+)$/i.exec(authorization) ?? [];
    const user = await this.#tokens.verify(token);
    if (user === undefined) throw unauthorized();
    return user;
  }
}

/** The two audit log lines of a request. */
class AuditEvent {
  readonly #options: ApiServerOptions;
  readonly #request: IncomingRequest;
  readonly #received: string;
  readonly #id = crypto.randomUUID();
  readonly #annotations: Record<string, string> = {};
  #about: Readonly<Record<string, unknown>> = { verb: "", user: {} };

  constructor(options: ApiServerOptions, request: IncomingRequest) {
    this.#options = options;
    this.#request = request;
    this.#received = this.#time();
  }

  receive(user: User, target: ApiTarget | undefined): void {
    this.#about = {
      verb: target?.verb ?? this.#request.method.toLowerCase(),
      user,
      sourceIPs: ["127.0.0.1"],
      userAgent: this.#request.userAgent,
      ...(target === undefined ? {} : { objectRef: objectRef(target) }),
    };
    this.#write("RequestReceived", this.#received, {});
  }

  decide({ allowed, reason = "" }: Authorization): void {
    this.annotate("authorization.k8s.io/decision", allowed ? "allow" : "forbid");
    this.annotate("authorization.k8s.io/reason", reason);
  }

  annotate(key: string, value: string): void {
    this.#annotations[key] = value;
  }

  complete(code: number): void {
    this.#write("ResponseComplete", this.#time(), {
      responseStatus: { metadata: {}, code },
      annotations: this.#annotations,
    });
  }

  #write(stage: string, stageTimestamp: string, more: Readonly<Record<string, unknown>>): void {
    const { responseStatus, annotations } = more;
    const event = {
      kind: "Event",
      apiVersion: "audit.k8s.io/v1",
      level: "Metadata",
      auditID: this.#id,
      stage,
      requestURI: `${this.#request.url.pathname}${this.#request.url.search}`,
      ...this.#about,
      responseStatus,
      requestReceivedTimestamp: this.#received,
      stageTimestamp,
      annotations,
    };
    appendFileSync(this.#options.auditLog, `${JSON.stringify(event)}\n`);
  }

  #time(): string {
    return new Date(this.#options.now()).toISOString().replace("Z", "000Z");
  }
}

function readPath(user: User, path: string, event: AuditEvent): OutgoingAnswer {
  const allowed = mayRead(user, path);
  event.decide({ allowed });
  if (!allowed) {
    const message = `forbidden: User "${user.username}" cannot get path "${path}"`;
    throw new ApiFailure(403, "Forbidden", message, {});
  }
  if (path === "/version") return json(200, { major: "1", minor: "36", gitVersion: "v1.36.3" });
  if (/^\/(?:healthz|livez|readyz)$/.test(path)) return { status: 200, contentType: PLAIN, body: "ok" };
  return { status: 404, contentType: PLAIN, body: "404 page not found\n" };
}

function forbidden(user: User, target: ApiTarget): ApiFailure {
  const { verb, group, plural, namespace, name } = target;
  const where = namespace === "" ? "at the cluster scope" : `in the namespace "${namespace}"`;
  const what = `${qualified(target)}${name === "" ? "" : ` "${name}"`}`;
  const message =
    `${what} is forbidden: User "${user.username}" cannot ${verb} resource "${resourceOf(target)}" in API ` +
    `group "${group}" ${where}`;
  return new ApiFailure(403, "Forbidden", message, {
    ...(name === "" ? {} : { name }),
    ...(group === "" ? {} : { group }),
    kind: plural,
  });
}

function attributesOf(target: ApiTarget) {
  const { verb, group, namespace, name } = target;
  return { verb, group, namespace, name, resource: resourceOf(target) };
}

function resourceOf({ plural, subresource }: ApiTarget): string {
  return subresource === "" ? plural : `${plural}/${subresource}`;
}

function objectRef({ group, version, plural, subresource, namespace, name }: ApiTarget) {
  return {
    resource: plural,
    ...(namespace === "" ? {} : { namespace }),
    ...(name === "" ? {} : { name }),
    ...(group === "" ? {} : { apiGroup: group }),
    apiVersion: version,
    ...(subresource === "" ? {} : { subresource }),
  };
}

function json(status: number, object: unknown): OutgoingAnswer {
  return { status, contentType: "application/json", body: `${JSON.stringify(object)}\n` };
}
