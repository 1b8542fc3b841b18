// Package pacing limits the calls of a process to the number that the API server can handle.
//
// A fixed rate is too low for one cluster and too high for another. So a [Limiter] bounds the
// number of calls in flight, and adapts the bound to the responses. The bound grows while more
// concurrent calls do not slow each call down. It shrinks when the API server reports overload
// (429, 503, 504), or when calls take several times their shortest time. The cause of slow calls
// may be this process or another client. The API server's priority and fairness decides how clients
// share the server.
//
// Waiting calls start in the order of their [Class]: calls that occupy or free room come first,
// events last.
//
// The bound applies to the whole process. Share one Limiter among all clients, through
// [Limiter.Config].
package pacing
