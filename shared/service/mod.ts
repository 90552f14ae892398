/**
 * The parts of every daemon: arguments, signals, logs, metrics, request ids, version.
 *
 * @module
 */

export type { Histogram, Metrics } from "./metrics.ts";
export {
  currentRequestId,
  inRequest,
  outgoingHeaders,
  outsideRequests,
  REQUEST_ID_HEADER,
} from "./request_context.ts";
export { exitCodeOf, parseServiceArguments, waitForStop } from "./service.ts";
export { describeVersion, VERSION } from "./version.ts";
