// Command schemas writes JSON schemas to test/chart/schemas. kubeconform checks the rendered Helm
// chart against these schemas. They come from three sources:
//
//   - kubernetes: the OpenAPI document in the module k8s.io/kubernetes
//   - reprieve: deploy/crds
//   - monitoring: the module of the Prometheus Operator, at a pinned version
//
// The schemas are strict: an unknown field is an error. They contain no descriptions.
//
// To add a Kubernetes kind, add it to the function kinds, and run `make generate`. To add a kind of
// the Prometheus Operator, add it to monitoringKinds, and run `go run ./hack/schemas -of
// monitoring`.
package main
