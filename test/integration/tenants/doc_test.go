// Package tenants tests two guarantees on a real API server. A user with the role edit in a
// namespace cannot gain an advantage over other users. Work does not get lost when an operator
// deletes a queue by mistake.
package tenants
