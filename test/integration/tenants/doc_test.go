// Package tenants checks two guarantees on a real API server. A user with the role edit in a
// namespace cannot gain an advantage over other teams. A mistake of an operator costs no work.
package tenants
