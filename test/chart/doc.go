// Package chart renders the Helm chart with Helm's own engine. By default, the chart must install
// the same objects as deploy/. Each value must have the effect in its description. Invalid values
// must be rejected with a helpful message.
//
// The package also runs the chart's own suites with helm-unittest. kubeconform compares the
// rendered objects with the schemas in schemas/. The package is a separate module, so that the
// product does not depend on Helm.
package chart
