import assert from "node:assert/strict";
import { isInNetwork, isNetwork } from "./network.ts";

Deno.test.each<{ text: string; is: boolean }>([
  { text: "10.0.0.0/8:22", is: true },
  { text: "0.0.0.0/0:22", is: true },
  { text: "10.0.0.5:2222", is: true },
  { text: "[fd00::5]:22", is: true },
  { text: "*.prod.example:22", is: true },
  { text: "db.example:22", is: true },
  { text: "10.0.0.0/8", is: false },
  { text: "10.0.0.0/33:22", is: false },
  { text: "10.0.0.256/8:22", is: false },
  { text: "10.0.0.0/8:0", is: false },
  { text: "10.0.0.0/8:65536", is: false },
  { text: "fc00::/7:22", is: false },
  { text: "[fc00::]/7:22", is: false },
  { text: "*:22", is: false },
  { text: "a.*.example:22", is: false },
  { text: "*.example", is: false },
  { text: "10.0.0.0/8:22,0.0.0.0/0:443", is: false },
  { text: "", is: false },
])('isNetwork() of "$text" is $is', ({ text, is }) => assert.equal(isNetwork(text), is));

Deno.test.each<{ addr: string; network: string; is: boolean }>([
  { addr: "10.1.2.3:22", network: "10.0.0.0/8:22", is: true },
  { addr: "10.1.2.3", network: "10.0.0.0/8:22", is: true },
  { addr: "10.1.2.3:2222", network: "10.0.0.0/8:22", is: false },
  { addr: "11.1.2.3:22", network: "10.0.0.0/8:22", is: false },
  { addr: "127.0.0.1:22", network: "10.0.0.0/33:22", is: false },
  { addr: "localhost:22", network: "127.0.0.0/8:22", is: false },
  { addr: "[fd00::5]:22", network: "[fd00::5]:22", is: true },
  { addr: "[fd00::5]:22", network: "0.0.0.0/0:22", is: false },
  { addr: "db.prod.example", network: "*.prod.example:22", is: true },
  { addr: "prod.example:22", network: "*.prod.example:22", is: false },
  { addr: "evilprod.example:22", network: "*.prod.example:22", is: false },
  { addr: "DB.prod.example:22", network: "db.PROD.example:22", is: true },
  { addr: "a:b:c", network: "*.prod.example:22", is: false },
])(
  "isInNetwork() of $addr in $network is $is",
  ({ addr, network, is }) => assert.equal(isInNetwork(addr, network), is),
);
