// Package pacing limits the concurrent calls of a process to the number that the API server can
// handle.
//
// A fixed rate is too low for one cluster and too high for another. So a [Limiter] bounds the
// number of calls in flight, and adapts the bound to the responses. The bound grows while more
// concurrent calls do not make each call slower. It shrinks when the API server reports overload
// (429, 503, 504), or when calls take several times their shortest time. The cause may be this
// process or other clients; the Limiter yields in both cases. The API server's priority and
// fairness shares the server among clients.
//
// Waiting calls start in the order of their [Class]: calls that occupy or free room on nodes come
// first, events last.
//
// The bound applies to the whole process, so all its clients must share one Limiter; see
// [Limiter.Config].
package pacing
