import assert from "node:assert/strict";
import { clientConfigPlaces } from "./client_config.ts";

const SYSTEM = { path: "/etc/gateway/broker-ctl.json", named: false };

Deno.test.each<
  {
    name: string;
    flag?: string;
    variables: Record<string, string>;
    expected: ReturnType<typeof clientConfigPlaces>;
  }
>([
  {
    name: "the flag before all else",
    flag: "me.json",
    variables: { BROKER_CTL_CONFIG: "/env.json", HOME: "/home/ann" },
    expected: [{ path: "/work/me.json", named: true }],
  },
  {
    name: "the environment next",
    variables: { BROKER_CTL_CONFIG: "/env.json", HOME: "/home/ann" },
    expected: [{ path: "/env.json", named: true }],
  },
  {
    name: "the home folder and the system otherwise",
    variables: { BROKER_CTL_CONFIG: "", HOME: "/home/ann" },
    expected: [{ path: "/home/ann/.config/broker-ctl/config.json", named: false }, SYSTEM],
  },
  {
    name: "the XDG folder before the home folder",
    variables: { XDG_CONFIG_HOME: "/xdg", HOME: "/home/ann" },
    expected: [{ path: "/xdg/broker-ctl/config.json", named: false }, SYSTEM],
  },
  { name: "the system alone without a home", variables: {}, expected: [SYSTEM] },
])(
  "clientConfigPlaces() takes $name, and never the working folder unasked",
  ({ flag, variables, expected }) => {
    assert.deepEqual(clientConfigPlaces(flag, { workingFolder: "/work", variables }), expected);
  },
);
