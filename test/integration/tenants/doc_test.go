// Package tenants tests two guarantees on a real API server with the manifests of deploy/. A user
// with the role edit in a namespace cannot gain an advantage over other users. Work does not get
// lost when an operator deletes a queue by mistake. Some tests run in namespaces without admission
// policies, where only the rules of the scheduler apply.
package tenants
