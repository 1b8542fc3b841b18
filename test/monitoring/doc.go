// Package monitoring tests the chart's alerts and Grafana dashboard with the query engine of
// Prometheus. Every expression must be valid. Every alert must fire in the intended situations and
// only there.
//
// The package is a separate Go module, so that the scheduler does not depend on Prometheus. Tests
// in test/integration/deploy check with a running scheduler that the metrics exist.
package monitoring
