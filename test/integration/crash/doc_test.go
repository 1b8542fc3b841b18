// Package crash tests on a real control plane that no preemption stays incomplete after a crash. It
// kills the scheduler at many points of an eviction, kills the API server or etcd too, or makes
// single calls fail. It also tests an old leader that continues to write after another one has
// taken over. All calls of the scheduler pass a proxy that delays them, so that evictions last long
// enough to be interrupted.
package crash
