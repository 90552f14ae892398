import type { Clock } from "@gateway/shared/clock";
import type { Settings } from "../settings/config.ts";
import type { addEvidence, CollectedContext, ContextRequest } from "../context/collect.ts";
import type { Catalogue } from "../models/providers.ts";
import type { Price } from "../models/prices.ts";
import type { DeviceFlowState } from "../models/device_flow.ts";
import type { TemplateSet } from "../prompts/templates.ts";
import type { RunManager } from "../runs/manager.ts";
import type { RunStore } from "../runs/store.ts";

/** The state of the logins at the providers. */
export interface ProviderStatus {
  readonly assist: {
    readonly isConfigured: boolean;
    readonly tokenPreview: string | undefined;
    readonly isSessionValid: boolean;
    readonly sessionExpiresInSeconds: number | undefined;
    readonly problem: string | undefined;
  };
  readonly hub: { readonly isConfigured: boolean; readonly tokenPreview: string | undefined };
}

/** A request of a route, and the parts of its path. */
export interface Routed {
  readonly request: Request;
  readonly param: (name: string) => string;
}

export interface WebPorts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly store: RunStore;
  readonly manager: RunManager;
  /** @param redact whether secrets are masked */
  readonly collectContext: (request: ContextRequest, redact: boolean) => Promise<CollectedContext>;
  /** The context followed by new evidence, whose secrets are masked. */
  readonly addEvidence: (
    context: string,
    evidence: Parameters<typeof addEvidence>[1],
  ) => Promise<CollectedContext>;
  readonly redact: (text: string) => string;
  /** Masks secrets in all texts of a JSON value; others are served meanwhile. */
  readonly redactAll: (value: unknown) => Promise<unknown>;
  /** The templates; read each time, since an operator may be editing one. */
  readonly loadTemplates: () => Promise<TemplateSet>;
  readonly models: { list(): Promise<Catalogue>; refresh(): Promise<Catalogue> };
  /** What a model costs; `undefined` when nobody knows. */
  readonly priceOf: (model: string) => Price | undefined;
  readonly providers: {
    status(): Promise<ProviderStatus>;
    startLogin(): Promise<DeviceFlowState>;
    checkLogin(code: string): Promise<DeviceFlowState | undefined>;
  };
  /** Called with the errors that are answered with status 500 or higher. */
  readonly onError: (error: unknown, requestId: string) => void;
  readonly newRequestId: () => string;
  readonly randomBytes: (length: number) => Uint8Array;
  readonly stopping: AbortSignal;
}

export interface RoutePorts extends WebPorts {
  readonly events: {
    handle(request: Request, runId: string): Promise<Response>;
    forget(runId: string): void;
  };
}
