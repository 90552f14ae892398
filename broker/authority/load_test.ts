import assert from "node:assert/strict";
import { ownName } from "./load.ts";

Deno.test("ownName() is the certificate's CN, commas and all", () => {
  assert.equal(ownName(pem("ONE")), "broker, one");
});

Deno.test.each([{ name: "without a CN", which: "NONE" }, { name: "with two CNs", which: "TWO" }])(
  "ownName() refuses a certificate $name",
  ({ which }) => {
    assert.throws(() => ownName(pem(which)), { code: "invalid_config" });
  },
);

function pem(which: string): string {
  return CERTIFICATES[which] ?? "";
}

/** Made by: `openssl req -x509 -newkey ed25519 -keyout key -nodes -days 36500 -subj <subject>` */
const CERTIFICATES: Readonly<Record<string, string>> = {
  // /O=acme/CN=broker\, one
  ONE: `-----BEGIN CERTIFICATE-----
MIIBYTCCAROgAwIBAgIUV3c1OrDr4t8wNSWrDhXP5ttNR+gwBQYDK2VwMCUxDTAL
BgNVBAoMBGFjbWUxFDASBgNVBAMMC2Jyb2tlciwgb25lMCAXDTI2MTEyMTA3NDAw
M1oYDzIxMjYxMDI4MDc0MDAzWjAlMQ0wCwYDVQQKDARhY21lMRQwEgYDVQQDDAti
cm9rZXIsIG9uZTAqMAUGAytlcAMhABWmZB9KrZWZsbuSI1gu+T5wtimVvVaF8KHa
70VP7a58o1MwUTAdBgNVHQ4EFgQUy1B07GA0wq4qIuk5GbVRCAXQW84wHwYDVR0j
BBgwFoAUy1B07GA0wq4qIuk5GbVRCAXQW84wDwYDVR0TAQH/BAUwAwEB/zAFBgMr
ZXADQQD70Kxa+m3hdOISVMsRQdDBimHYcmeh2v8JBjxW/MMVwil7xEFBQGmz4Bpl
edDXQVyJoDGxe7bC3ekGeFMiDUEP
-----END CERTIFICATE-----`,
  // /O=acme
  NONE: `-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhRc7Q7xdDwO1hHU76iobWZTtd3MLTAFBgMrZXAwDzENMAsG
A1UECgwEYWNtZTAgFw0yNjExMjEwNzQwMDNaGA8yMTI2MTAyODA3NDAwM1owDzEN
MAsGA1UECgwEYWNtZTAqMAUGAytlcAMhAIA+piEVC/YcgqjZAh0WRaSmjSxPiL41
gbGelRf5C03Go1MwUTAdBgNVHQ4EFgQUKeQxfoDBK0qfVZvc7odpyI5vKEswHwYD
VR0jBBgwFoAUKeQxfoDBK0qfVZvc7odpyI5vKEswDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQD6KqhNeWD2GLsBBqBtjM3Sh8IKn3Er1Krw04AGyPN1yldR4ogXzpuV
JfcLsuZZhT84ZCtr7Tt2dNI/jyn/t0UM
-----END CERTIFICATE-----`,
  // /CN=a/CN=b
  TWO: `-----BEGIN CERTIFICATE-----
MIIBRjCB+aADAgECAhRUZtMj5IUhcXRRad/WprtPE77LJDAFBgMrZXAwGDEKMAgG
A1UEAwwBYTEKMAgGA1UEAwwBYjAgFw0yNjExMjEwNzQwMDNaGA8yMTI2MTAyODA3
NDAwM1owGDEKMAgGA1UEAwwBYTEKMAgGA1UEAwwBYjAqMAUGAytlcAMhAAm6qNEp
haPhfxk9+iWaInozmuGO7Ls2fUKno1kPg356o1MwUTAdBgNVHQ4EFgQUpzlJ10JD
L7Q2h2LPsHWwBElX8i0wHwYDVR0jBBgwFoAUpzlJ10JDL7Q2h2LPsHWwBElX8i0w
DwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQD/ZrRFx8Edk2uXA4l2urr9JBdkG5J+
YXrad66XYAaj9YkFlE+UJ4RbTqj2aAVCkYYa33TAjv+AzPNdKRpQzgcK
-----END CERTIFICATE-----`,
};
