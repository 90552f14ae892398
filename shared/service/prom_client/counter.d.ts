/**
 * One part of prom-client: the whole of it loads clustering and process metrics that we do not use.
 *
 * @module
 */
import { Counter } from "prom-client";
export default Counter;
