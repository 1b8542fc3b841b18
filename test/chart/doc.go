// Package chart renders the Helm chart with Helm's own engine: what it has by default is what deploy/ installs, each value does
// what its description says, and what is wrong is refused in words that help. It also runs the chart's own suites, by helm-unittest, and has
// kubeconform compare what is rendered with the schemas in schemas/. It is a module of its own, so that nothing
// of Helm is a dependency of the product.
package chart
