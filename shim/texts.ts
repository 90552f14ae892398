/**
 * The files that go to a sealed host, as `broker-ctl host install-shim` sends them.
 *
 * @module
 */
import installer from "./install" with { type: "text" };
import shim from "./gateway-shim" with { type: "text" };

/** The shim of format v2, a program of sh. */
export const SHIM_TEXT: string = shim;

/** What puts it in its place, and looks whether all is well: a program of sh, which explains its options itself. */
export const INSTALLER_TEXT: string = installer;
