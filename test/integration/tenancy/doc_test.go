// Package tenancy tests which namespaces may use which queue, on a real API server, with the admission policies and without.
package tenancy
