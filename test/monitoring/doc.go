// Package monitoring evaluates the alerts and the dashboard's queries of the chart with Prometheus' own engine: every
// expression is one, and every alert goes off when it should and at no other time. It is a module of its own, so that
// nothing of Prometheus is a dependency of the product. That there is data for all of it is for test/integration/deploy to say,
// which has a scheduler, and a Prometheus.
package monitoring
