// Package chart tests the Helm chart. It renders the chart with Helm's own engine. With default
// values, the chart must install the same objects as deploy/. Each value must have its documented
// effect. Invalid values must be rejected with a helpful message.
//
// The package also runs the test suites in the chart with helm-unittest, and checks the rendered
// objects with kubeconform against schemas/. It is a separate Go module, so that the scheduler does
// not depend on Helm.
package chart
