// Package slowapi puts a proxy in front of a playground's API server that makes calls slow, or fail, when a test
// says so. Whoever is given its kubeconfig talks through it.
//
// It is about the time that calls take, and about callers that end in the middle of them. For the order of calls, and
// for holding some of them up until something else has happened, there is preemption/turnstile.
package slowapi
