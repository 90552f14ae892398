import assert from "node:assert/strict";
import { canonicalSudoUser, elevationLabel } from "./sudo_user.ts";

Deno.test.each([
  { name: "no sudo", sudo: false, user: "", canonical: "", label: "" },
  { name: "a user without sudo", sudo: false, user: "db", canonical: "", label: "" },
  { name: "a wire object that says nothing", sudo: undefined, user: undefined, canonical: "", label: "" },
  { name: "sudo without user", sudo: true, user: "", canonical: "root", label: "sudo:root" },
  { name: "sudo with an absent user", sudo: true, user: undefined, canonical: "root", label: "sudo:root" },
  { name: "sudo to root", sudo: true, user: "root", canonical: "root", label: "sudo:root" },
  { name: "sudo to another", sudo: true, user: "db", canonical: "db", label: "sudo:db" },
])("canonicalSudoUser() of $name is '$canonical' (I25)", ({ sudo, user, canonical, label }) => {
  assert.equal(canonicalSudoUser(sudo, user), canonical);
  assert.equal(elevationLabel(sudo, user), label);
});
