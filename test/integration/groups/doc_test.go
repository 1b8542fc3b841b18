// Package groups has gangs placed whole of which no user has written a PodGroup: those of Jobs, JobSets and LeaderWorkerSets that
// ask for it, on a real API server with its Job controller and garbage collector. The controllers of the other two are played by
// the tests, with small CRDs of their own.
package groups
