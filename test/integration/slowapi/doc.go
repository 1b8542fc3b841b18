// Package slowapi is a proxy for the API server of a playground, for tests. It delays calls or
// makes them fail. Processes use the proxy through a kubeconfig.
//
// Use this package for tests about the duration of calls, and about callers that end during a call.
// For tests about the order of calls, and for calls that wait for another event, use the package
// preemption/turnstile.
package slowapi
