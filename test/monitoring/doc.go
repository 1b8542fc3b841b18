// Package monitoring evaluates the alerts and the dashboard's queries of the chart with Prometheus'
// own engine. Every expression must be valid, and every alert must fire when it should and at no
// other time.
//
// The package is a separate module, so that the product does not depend on Prometheus.
// test/integration/deploy checks that the metrics exist, with a scheduler and a Prometheus.
package monitoring
