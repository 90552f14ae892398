/**
 * One part of prom-client: the whole of it loads clustering and process metrics that we do not use.
 *
 * @module
 */
import { Gauge } from "prom-client";
export default Gauge;
