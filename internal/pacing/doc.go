// Package pacing lets a process make as many calls to an API server as that can take, and no more.
//
// A fixed rate is too low for one cluster and too high for another. A [Limiter] bounds how many calls are under way instead, and
// moves that bound by what comes back: it grows as long as more calls at a time do not take longer each, and shrinks when the
// API server says that it has too many (429, 503, 504) or when calls take several times as long as they can, be it for this
// process or for another that keeps the API server busy. Who gets how much is for the API server's own priority and fairness
// to say.
//
// Calls that wait go by what depends on them: what makes and takes room first, events last (see [Class]).
//
// The bound is one number for a process. Share a Limiter among all its clients, by [Limiter.Config].
package pacing
