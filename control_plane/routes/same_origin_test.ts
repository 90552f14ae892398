import assert from "node:assert/strict";
import { checkSameOrigin, type RequestOrigin } from "./roles.ts";

const OWN = "https://control-plane:7443";

interface Row {
  readonly name: string;
  readonly headers: Record<string, string>;
  readonly template?: string;
  readonly is: RequestOrigin;
}

Deno.test.each<Row>([
  {
    name: "a form of our page",
    headers: { "sec-fetch-site": "same-origin", origin: "null" },
    is: "same_origin",
  },
  {
    name: "a script of our page",
    headers: { "sec-fetch-site": "same-origin", origin: OWN },
    is: "same_origin",
  },
  { name: "our page without Origin", headers: { "sec-fetch-site": "same-origin" }, is: "same_origin" },
  { name: "our page in an old browser", headers: { origin: OWN }, is: "same_origin" },
  {
    name: "our page on the usual port",
    headers: { origin: "https://cp" },
    template: "https://CP:443/ui/approvals/{id}",
    is: "same_origin",
  },
  {
    name: "our page by an address",
    headers: { origin: "https://[::1]:7443" },
    template: "https://[0::1]:7443/{id}",
    is: "same_origin",
  },
  { name: "a program", headers: {}, is: "no_evidence" },
  { name: "an address that was typed", headers: { "sec-fetch-site": "none" }, is: "no_evidence" },
  { name: "another site", headers: { "sec-fetch-site": "cross-site" }, is: "cross_origin" },
  {
    name: "a sibling of our host",
    headers: { "sec-fetch-site": "same-site", origin: OWN },
    is: "cross_origin",
  },
  { name: "an unknown word", headers: { "sec-fetch-site": "Same-Origin" }, is: "cross_origin" },
  { name: "two words", headers: { "sec-fetch-site": "same-origin, cross-site" }, is: "cross_origin" },
  { name: "another origin", headers: { origin: "https://evil.example" }, is: "cross_origin" },
  { name: "another port", headers: { origin: "https://control-plane" }, is: "cross_origin" },
  { name: "another scheme", headers: { origin: "http://control-plane:7443" }, is: "cross_origin" },
  { name: "a longer host", headers: { origin: `${OWN}.evil.example` }, is: "cross_origin" },
  { name: "an empty origin", headers: { origin: "" }, is: "cross_origin" },
  { name: "an opaque origin in an old browser", headers: { origin: "null" }, is: "cross_origin" },
  {
    name: "an opaque origin from nowhere",
    headers: { "sec-fetch-site": "none", origin: "null" },
    is: "cross_origin",
  },
  {
    name: "headers that contradict",
    headers: { "sec-fetch-site": "same-origin", origin: "https://evil.example" },
    is: "cross_origin",
  },
  { name: "an origin where none is configured", headers: { origin: OWN }, template: "", is: "cross_origin" },
  {
    name: "a form of our page where none is configured",
    headers: { "sec-fetch-site": "same-origin", origin: "null" },
    template: "",
    is: "same_origin",
  },
  {
    name: "another origin that is also the Host",
    headers: { origin: "https://evil.example", host: "evil.example" },
    is: "cross_origin",
  },
])("checkSameOrigin() of $name is $is", ({ headers, template = `${OWN}/ui/approvals/{id}`, is }) => {
  assert.equal(checkSameOrigin(new Headers(headers), template), is);
});
