export interface ApiRequest {
  /** Default GET. */
  readonly method?: string;
  /** With the query, for example `/api/v1/namespaces/shop/pods?limit=2`. */
  readonly path: string;
  /** Text is sent unchanged, all other values as JSON. */
  readonly body?: unknown;
  /** Default `application/json`; `application/apply-patch+yaml` for a PATCH with a body. */
  readonly contentType?: string;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The parts of an API object that tests use. */
export interface KubernetesObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMetadata;
  readonly [key: string]: unknown;
}

export interface ObjectMetadata {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly [key: string]: unknown;
}

/** The identity of a request: a client certificate, a bearer token, or none. */
export interface ApiCredential {
  readonly cert?: string;
  readonly key?: string;
  readonly token?: string;
}

export class Api implements Disposable {
  readonly #apiServer: string;
  readonly #client: Deno.HttpClient;
  readonly #token: string | undefined;

  constructor(apiServer: string, caPem: string, { cert, key, token }: ApiCredential = {}) {
    this.#apiServer = apiServer;
    this.#token = token;
    this.#client = Deno.createHttpClient({
      caCerts: [caPem],
      ...(cert === undefined || key === undefined ? {} : { cert, key }),
    });
  }

  async ask({ method = "GET", path, body, contentType }: ApiRequest): Promise<ApiAnswer> {
    const type = contentType ?? (method === "PATCH" ? "application/apply-patch+yaml" : "application/json");
    const response = await fetch(`${this.#apiServer}${path}`, {
      method,
      redirect: "manual",
      client: this.#client,
      headers: {
        accept: "application/json",
        ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
        ...(body === undefined ? {} : { "content-type": type }),
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  /**
   * Sends a request that must succeed and returns the object in the answer.
   *
   * @throws {Error} with the answer's text if its status is not 2xx
   */
  async must(request: ApiRequest): Promise<KubernetesObject> {
    const { status, text } = await this.ask(request);
    if (status < 200 || status > 299) {
      throw new Error(`${request.method ?? "GET"} ${request.path}: ${status} ${text}`);
    }
    return JSON.parse(text);
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}
