// Package slowapi is a proxy in front of a playground's API server that delays or fails calls when
// a test asks for it. A process that has its kubeconfig talks through the proxy.
//
// Use it for the duration of calls, and for callers that end during a call. For the order of calls,
// and for calls that wait for another event, use preemption/turnstile.
package slowapi
