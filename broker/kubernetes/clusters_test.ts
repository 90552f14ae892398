import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { FakeClock } from "@gateway/shared/testing";
import type { ClustersResponse } from "@gateway/shared/wire";
import { CLUSTER, ClusterFixture } from "../testing/cluster_fixture.ts";
import { Clusters } from "./clusters.ts";

const { signal } = new AbortController();

Deno.test("Clusters tells when the first cluster comes and when the last one goes, and not in between", async () => {
  const fixture = new ClusterFixture();
  const told: boolean[] = [];
  const end = fixture.clusters.watch(() => told.push(fixture.clusters.isEmpty));
  const lists: ClustersResponse[] = [{}, { a: CLUSTER }, { a: CLUSTER, b: CLUSTER }, { b: CLUSTER }, {}, {}];
  for (const list of lists) {
    fixture.authority.clusterList = () => list;
    await fixture.clusters.inventory.refresh();
  }
  assert.deepEqual(told, [false, true]);
  end();
  fixture.authority.clusterList = () => ({ a: CLUSTER });
  await fixture.clusters.inventory.refresh();
  assert.deepEqual(told, [false, true]);
});

Deno.test("Clusters keeps what it knows when the list can't be had", async () => {
  const fixture = new ClusterFixture();
  await fixture.clusters.inventory.refresh();
  fixture.authority.clusterList = () => Promise.reject(new AppError("upstream_failure", "gone"));
  await assert.rejects(fixture.clusters.inventory.refresh());
  assert.deepEqual([...(await fixture.clusters.inventory.current()).keys()], ["prod"]);
  assert.equal(fixture.clusters.isEmpty, false);
  await assert.rejects(
    fixture.clusters.find("prod", signal),
    /upstream failure: refreshing cluster list: gone$/,
  );
});

Deno.test("Clusters connects once, and anew when address or CA are others", async () => {
  const fixture = new ClusterFixture();
  const connect = async () => (await fixture.clusters.find("prod", signal)).connection();
  await connect();
  await connect();
  assert.equal(fixture.connected.length, 1);
  fixture.authority.clusterList = () => ({ prod: { ...CLUSTER, groups: ["x"] } });
  await connect();
  assert.equal(fixture.connected.length, 1);
  for (const change of [{ ca_cert_pem: "OTHER" }, { api_server: "https://10.0.0.6" }]) {
    fixture.authority.clusterList = () => ({ prod: { ...CLUSTER, ...change } });
    await connect();
  }
  assert.deepEqual([fixture.connected.length, fixture.closed], [3, 2]);
  fixture.authority.clusterList = () => ({});
  await fixture.clusters.inventory.refresh();
  assert.equal(fixture.closed, 3);
});

Deno.test("Clusters names the cluster whose CA can't be used, and works with the others", async () => {
  const clusters = new Clusters({
    clock: new FakeClock(),
    fetch: () => Promise.resolve({ good: CLUSTER, bad: { ...CLUSTER, ca_cert_pem: "" } }),
    connect({ ca_cert_pem }) {
      if (ca_cert_pem === "") throw new AppError("invalid_config", "Cannot use the TLS CA certificate");
      return { request: () => Promise.resolve({ kind: "timed_out" }), close() {} };
    },
  });
  const bad = await clusters.find("bad", signal);
  assert.throws(() => bad.connection(), /cannot use cluster "bad": Cannot use the TLS CA certificate/);
  (await clusters.find("good", signal)).connection();
});
