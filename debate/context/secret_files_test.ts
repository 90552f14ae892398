import assert from "node:assert/strict";
import { isSecretFile } from "./secret_files.ts";

Deno.test.each([
  ".env",
  "a/.env.production",
  "tls/server.key",
  "cert.PEM",
  "id_ed25519",
  ".ssh/config",
  "home/.aws/credentials",
  ".kube/config",
  ".netrc",
  ".pgpass",
  ".npmrc",
  "/etc/shadow",
  "/etc/shadow-",
  "/proc/1/environ",
  "/run/secrets/db",
  "terraform.tfstate",
  "credentials.json",
].map((path) => ({ name: path, path })))("isSecretFile() $name", ({ path }) => {
  assert.equal(isSecretFile(path), true);
});

Deno.test.each([
  "README.md",
  ".env.example",
  "environment.ts",
  "id_ed25519.pub",
  "src/keys.ts",
  "keyboard.md",
  "/etc/hosts",
  "docs/shadow.md",
].map((path) => ({ name: path, path })))("isSecretFile() not $name", ({ path }) => {
  assert.equal(isSecretFile(path), false);
});
