// Command schemas writes the JSON schemas for kubeconform to test/chart/schemas. kubeconform checks
// the rendered Helm chart with them. The schemas of Kubernetes kinds come from the OpenAPI document
// in the module k8s.io/kubernetes. Reprieve's own come from deploy/crds. The schemas of the
// Prometheus Operator come from its module, at a version that is pinned here.
//
// They are strict, so that an unknown field is an error, and have no descriptions. To add a missing
// kind, name it in kinds (or monitoringKinds), and run `make generate` (or `go run ./hack/schemas
// -of monitoring`).
package main
