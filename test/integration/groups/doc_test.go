// Package groups has gangs placed whole of which no user has written a PodGroup: those of Jobs, JobSets, LeaderWorkerSets and the like that
// ask for it, on a real API server with its Job controller and garbage collector. The kinds are those of the frameworks' own CRDs; what
// their controllers make of an object, the tests do.
package groups
