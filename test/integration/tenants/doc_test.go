// Package tenants checks on a real API server that a user with the role edit in a namespace gains
// nothing over other teams by deeds of its own, and that an operator's mistake costs no work.
package tenants
