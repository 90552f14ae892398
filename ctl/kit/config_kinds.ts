import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { signerConfig } from "@gateway/signer/config";
import { clientConfig } from "./client_config.ts";

/** How the configs of an installation are checked: exactly as their programs check them. */
export const CONFIG_KINDS = {
  signer: { what: "signer config", schema: signerConfig },
  controlPlane: { what: "control plane config", schema: controlPlaneConfig },
  broker: { what: "broker config", schema: brokerConfig, unsupported: UNSUPPORTED_BROKER_KEYS },
  client: { what: "client config", schema: clientConfig },
};
