/**
 * The files that go to a sealed host, as `broker-ctl host install-shim` sends them.
 *
 * @module
 */
import installer from "./install" with { type: "text" };
import shimV1 from "./gateway-shim-v1" with { type: "text" };
import shim from "./gateway-shim" with { type: "text" };

/** The shim of format v2, a program of sh. */
export const SHIM_TEXT: string = shim;

/** The launcher of format v1, a program of sh; the verifier is another file. */
export const SHIM_V1_TEXT: string = shimV1;

/** Shell script that installs and checks either shim. Its comment lists the options. */
export const INSTALLER_TEXT: string = installer;
