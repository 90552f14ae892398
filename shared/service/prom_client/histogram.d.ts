/**
 * One part of prom-client: the whole of it loads clustering and process metrics that we do not use.
 *
 * @module
 */
import { Histogram } from "prom-client";
export default Histogram;
