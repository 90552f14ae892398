/**
 * The device authorization grant (RFC 8628). The token is passed only to the store. Clients of the web API see a
 * random ID of the flow, because anyone with the provider's device code can fetch the token. `oauth4webapi` is not
 * used: it rejects `authorization_pending` with status 200, which GitHub sends, and it checks neither the length of
 * an answer nor the scheme of `verification_uri`.
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { ModelError } from "../engine/ports.ts";
import { exchangeJson } from "./exchange.ts";
import { isToken } from "./tokens.ts";

export interface DeviceFlowOptions {
  /** The settings without which no login is possible. */
  readonly missing: readonly string[];
  readonly deviceCodeUrl: string;
  readonly tokenUrl: string;
  readonly clientId: string;
  /** Empty: no scope is requested. */
  readonly scope: string;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  newId(): string;
  store(token: string): Promise<void>;
}

/** The state of a flow, as the web API reports it. */
export interface DeviceFlowState {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  /** Minimum seconds between two checks. More frequent checks are not sent to the provider. */
  readonly interval: number;
  /** Lifetime of the code from the start of the flow, in seconds. */
  readonly expires_in: number;
  readonly status: "pending" | "authorized" | "denied" | "expired" | "error";
  readonly last_error: string | null;
}

interface Flow {
  state: DeviceFlowState;
  readonly secretCode: string;
  readonly expiresAt: number;
  nextPollAt: number;
  checking?: Promise<DeviceFlowState> | undefined;
}

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";
const SLOW_DOWN_SECONDS = 5;
const MAX_FLOWS = 16;
const EXPIRED = "The code has expired; start again";

const startAnswer = z.looseObject({
  device_code: z.string().min(1).max(4096),
  user_code: z.string().regex(/^[\x21-\x7e]{1,64}$/),
  // The page shows this URL as a link.
  verification_uri: z.string().max(2048).refine((uri) => /^https?:\/\//i.test(uri) && URL.canParse(uri)),
  interval: z.number().min(1).max(300).catch(5),
  expires_in: z.number().min(1).max(86_400).catch(900),
});

const tokenAnswer = z.looseObject({
  access_token: z.string().refine(isToken).optional().catch(undefined),
  error: z.string().catch(""),
  interval: z.number().min(1).max(300).optional().catch(undefined),
});

export function deviceFlows(options: DeviceFlowOptions) {
  const { missing, deviceCodeUrl, tokenUrl, clientId, scope, fetch, clock, newId, store } = options;
  const flows = new Map<string, Flow>();

  async function poll(flow: Flow): Promise<DeviceFlowState> {
    flow.nextPollAt = clock.now() + flow.state.interval * 1000;
    try {
      const form = { client_id: clientId, device_code: flow.secretCode, grant_type: GRANT_TYPE };
      const { status, body } = await exchangeJson({ fetch, clock, url: tokenUrl, form });
      const answer = tokenAnswer.safeParse(body).data;
      if (answer?.access_token === undefined) return read(flow, status, answer);
      const isStored = await store(answer.access_token).then(() => true, () => false);
      return isStored
        ? update(flow, { status: "authorized", last_error: null })
        : update(flow, { status: "error", last_error: "Access was granted, but the token cannot be stored" });
    } catch (error) {
      // The next check may reach the provider.
      const why = error instanceof ModelError ? error.message : "the exchange failed";
      return update(flow, { last_error: `No answer yet: ${why}` });
    }
  }

  /** Checks the state of a flow; `undefined` if the flow is unknown or was removed. */
  async function check(code: string): Promise<DeviceFlowState | undefined> {
    const flow = flows.get(code);
    if (flow === undefined || flow.state.status !== "pending") return flow?.state;
    const now = clock.now();
    if (now >= flow.expiresAt) return update(flow, { status: "expired", last_error: EXPIRED });
    if (flow.checking === undefined && now < flow.nextPollAt) return flow.state;
    // One check at a time, because a second check could consume the code and lose the token.
    flow.checking ??= poll(flow).finally(() => flow.checking = undefined);
    return await flow.checking;
  }

  return {
    check,
    async start(signal?: AbortSignal): Promise<DeviceFlowState> {
      if (missing.length > 0) {
        const fix = `set ${missing.join(", ")} (see debate login --help), or set ASSIST_TOKEN`;
        throw new AppError("invalid_config", `Cannot log in: settings are missing\nfix: ${fix}`);
      }
      const form = { client_id: clientId, ...(scope === "" ? {} : { scope }) };
      const { status, body } = await exchangeJson({ fetch, clock, url: deviceCodeUrl, form, signal });
      const answer = startAnswer.safeParse(body).data;
      if (status !== 200 || answer === undefined) {
        const text = `Cannot log in: the provider did not start a device flow (HTTP ${status})`;
        throw new ModelError("bad_reply", text);
      }
      const { device_code: secretCode, user_code, verification_uri, interval, expires_in } = answer;
      const now = clock.now();
      for (const [code, { expiresAt }] of flows) {
        if (expiresAt <= now || flows.size >= MAX_FLOWS) flows.delete(code);
      }
      const shown = { device_code: newId(), user_code, verification_uri, interval, expires_in };
      const state: DeviceFlowState = { ...shown, status: "pending", last_error: null };
      const [expiresAt, nextPollAt] = [now + expires_in * 1000, now + interval * 1000];
      flows.set(state.device_code, { state, secretCode, expiresAt, nextPollAt });
      return state;
    },
    async wait(code: string, signal: AbortSignal): Promise<DeviceFlowState | undefined> {
      for (;;) {
        const state = await check(code);
        if (state?.status !== "pending") return state;
        await clock.sleep(state.interval * 1000, signal);
      }
    },
  };
}

function read(flow: Flow, status: number, answer: z.infer<typeof tokenAnswer> | undefined): DeviceFlowState {
  switch (answer?.error) {
    case "authorization_pending":
      return update(flow, { last_error: null });
    case "slow_down": {
      const interval = Math.max(flow.state.interval + SLOW_DOWN_SECONDS, answer.interval ?? 0);
      flow.nextPollAt += (interval - flow.state.interval) * 1000;
      return update(flow, { interval, last_error: null });
    }
    case "expired_token":
      return update(flow, { status: "expired", last_error: EXPIRED });
    case "access_denied":
      return update(flow, { status: "denied", last_error: "Access was denied" });
  }
  if (status >= 500 || status === 429) {
    return update(flow, { last_error: `No answer yet: the provider failed (HTTP ${status})` });
  }
  const code = /^[a-z_]{1,64}$/.exec(answer?.error ?? "")?.[0];
  const why = code === undefined ? `HTTP ${status}` : `HTTP ${status}, ${code}`;
  return update(flow, { status: "error", last_error: `The provider ended the flow (${why}); start again` });
}

function update(flow: Flow, change: Partial<DeviceFlowState>): DeviceFlowState {
  return flow.state = { ...flow.state, ...change };
}
