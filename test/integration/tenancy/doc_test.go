// Package tenancy tests on a real API server which namespaces may use which queue. It runs the
// tests with and without the admission policies.
package tenancy
