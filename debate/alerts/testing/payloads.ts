/** Webhooks in the forms that the vendors document, with the fields of their examples. */

/** https://prometheus.io/docs/alerting/latest/configuration/#webhook_config */
export const ALERTMANAGER = {
  version: "4",
  groupKey: '{}/{severity="critical"}:{alertname="CheckoutMemory"}',
  truncatedAlerts: 0,
  status: "firing",
  receiver: "debate",
  groupLabels: { alertname: "CheckoutMemory" },
  commonLabels: { alertname: "CheckoutMemory", job: "checkout-api", severity: "critical" },
  commonAnnotations: { summary: "checkout-api runs out of memory" },
  externalURL: "http://alertmanager.example:9093",
  alerts: [{
    status: "firing",
    labels: { alertname: "CheckoutMemory", instance: "10.0.0.4:9090", severity: "critical" },
    annotations: { summary: "checkout-api runs out of memory", description: "killed every 40 minutes" },
    startsAt: "2026-03-10T14:51:03.157076+02:00",
    endsAt: "0001-01-01T00:00:00Z",
    generatorURL: "http://prometheus.example:9090/graph?g0.expr=up",
    fingerprint: "c6eadffa33fcdf37",
  }],
};

/** https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/ */
export const GRAFANA = {
  receiver: "My webhook",
  status: "firing",
  orgId: 1,
  alerts: [{
    status: "firing",
    labels: { alertname: "High memory usage", team: "blue", zone: "us-1" },
    annotations: {
      description: "The system has high memory usage",
      runbook_url: "https://runbook.example/1234",
    },
    startsAt: "2026-03-10T09:51:03.157076+02:00",
    endsAt: "0001-01-01T00:00:00Z",
    generatorURL: "https://grafana.example/alerting/1afz29v7z/edit",
    fingerprint: "c6eadffa33fcdf37",
    silenceURL: "https://grafana.example/alerting/silence/new",
    dashboardURL: "",
    panelURL: "",
    values: { B: 44.23943737541908, C: 1 },
  }],
  groupLabels: {},
  commonLabels: { team: "blue" },
  commonAnnotations: {},
  externalURL: "https://grafana.example/",
  version: "1",
  groupKey: "{}:{}",
  truncatedAlerts: 0,
  title: "[FIRING:1]  (blue)",
  state: "alerting",
  message: "**Firing**",
};

/** https://developer.pagerduty.com/docs/webhooks-overview#webhook-payload */
export const PAGERDUTY = {
  event: {
    id: "5ac64822-4adc-4fda-ade0-410becf0de4f",
    event_type: "incident.triggered",
    resource_type: "incident",
    occurred_at: "2026-03-10T18:45:22.169Z",
    agent: { id: "PLH1HKV", summary: "Tenex Engineer", type: "user_reference" },
    client: { name: "PagerDuty" },
    data: {
      id: "PGR0VU2",
      type: "incident",
      self: "https://api.pagerduty.com/incidents/PGR0VU2",
      html_url: "https://acme.pagerduty.com/incidents/PGR0VU2",
      number: 2,
      status: "triggered",
      incident_key: "d3640fbd41094207a1c11e58e46b1662",
      created_at: "2026-03-10T15:16:27Z",
      title: "A little bump in the road",
      service: { id: "PF9KMXH", summary: "API Service", type: "service_reference" },
      priority: { id: "PSO75BM", summary: "P1", type: "priority_reference" },
      urgency: "high",
      resolve_reason: null,
    },
  },
};

export function pagerDuty(fields: object): object {
  return { event: { ...PAGERDUTY.event, data: { ...PAGERDUTY.event.data, ...fields } } };
}
