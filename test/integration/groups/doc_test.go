// Package groups tests derived gangs: the user creates no PodGroup, but a Job, JobSet,
// LeaderWorkerSet or other object with an annotation that requests a gang. The tests use a real API
// server, the Job controller, the garbage collector, and the CRDs of frameworks. The tests
// themselves do the work of the frameworks' controllers.
package groups
