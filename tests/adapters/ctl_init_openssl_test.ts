import assert from "node:assert/strict";
import { join } from "node:path";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { createFolder, run } from "./ctl_fixture.ts";

async function openssl(...args: string[]) {
  const { success, stdout } = await new Deno.Command("openssl", { args, stderr: "null" }).output();
  return { success, text: new TextDecoder().decode(stdout) };
}

const ignore = !(await openssl("version").then(({ success }) => success, () => false));

Deno.test({ name: "init makes a bundle with the approver's pair, as openssl reads it", ignore }, async () => {
  await using folder = await createFolder();
  const { approver, approver_bundle: bundle, approver_bundle_password: password } = JSON.parse(
    (await run(folder.path, "init", "--json")).out,
  );
  const read = (password: string) =>
    openssl("pkcs12", "-in", bundle, "-passin", `pass:${password}`, "-nodes");
  assert.match(password, /^[\w-]{20}$/);
  const { text } = await read(password);
  for (const path of [approver.cert, approver.key]) {
    assert.ok(text.includes((await Deno.readTextFile(path)).trim()), path);
  }
  for (const other of ["gateway", ""]) assert.equal((await read(other)).success, false);
});

Deno.test({ name: "init makes a CA that can vouch for this machine alone", ignore }, async () => {
  await using folder = await createFolder();
  const at = (name: string) => join(folder.path, name);
  const authority = await createCertificateAuthority({ commonName: "CA", localOnly: true });
  await Deno.writeTextFile(at("ca.crt"), authority.certPem);
  const verify = async (...subjectAltNames: string[]) => {
    const { certPem } = await issueLeaf(authority, {
      subject: "CN=localhost",
      usage: "server",
      subjectAltNames,
    });
    await Deno.writeTextFile(at("leaf.crt"), certPem);
    return (await openssl("verify", "-CAfile", at("ca.crt"), "-purpose", "sslserver", at("leaf.crt")))
      .success;
  };
  for (const name of ["localhost", "127.0.0.1", "127.9.9.9", "::1"]) assert.ok(await verify(name), name);
  for (const name of ["example.org", "10.0.0.1", "::2", "localhost.example.org"]) {
    assert.equal(await verify("localhost", name), false, name);
  }
});

Deno.test(
  { name: "identity add makes a bundle with a password of one's own, as openssl reads it", ignore },
  async () => {
    await using folder = await createFolder();
    await run(folder.path, "init");
    const at = (name: string) => join(folder.path, name);
    await Deno.writeTextFile(at("password"), "correct horse battery\n");
    const add = (name: string, ...flags: string[]) =>
      run(folder.path, "identity", "add", "approver", name, "--p12", "--json", ...flags);
    const open = async (name: string, password: string) =>
      (await openssl("pkcs12", "-in", at(`pki/${name}.p12`), "-passin", `pass:${password}`, "-nodes"))
        .success;
    assert.equal((await add("ann", "--password-file", "password")).exit, 0);
    assert.deepEqual([await open("ann", "correct horse battery"), await open("ann", "gateway")], [
      true,
      false,
    ]);
    const { password } = JSON.parse((await add("ben")).out);
    assert.deepEqual([password.length, await open("ben", password)], [20, true]);
    await Deno.writeTextFile(at("password"), "short\n");
    assert.match((await add("cy", "--password-file", "password")).err, /12 or more/);
  },
);
