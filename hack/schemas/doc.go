// Command schemas writes the JSON schemas by which kubeconform checks what the Helm chart renders,
// to test/chart/schemas: of the kinds of Kubernetes that the chart has, from the OpenAPI document
// in the module k8s.io/kubernetes, of Reprieve's own, from deploy/crds, and of those of the
// Prometheus Operator, from its module at a version that is pinned here.
//
// They are strict, so that a field that does not exist is an error, and have nothing that only
// readers need. A kind that is missing is named in kinds (or monitoringKinds), and written by `make
// generate` (or `go run ./hack/schemas -of monitoring`).
package main
