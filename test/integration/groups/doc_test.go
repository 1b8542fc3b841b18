// Package groups tests gangs without a PodGroup by a user: Jobs, JobSets, LeaderWorkerSets and
// other objects that request a gang. It uses a real API server with its Job controller and garbage
// collector, and the frameworks' own CRDs. The tests do the work of the frameworks' controllers.
package groups
