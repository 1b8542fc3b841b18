// Package crash tests on a real control plane that a crash never leaves a preemption incomplete.
// The tests interrupt evictions at many points:
//
//   - They kill the scheduler, and in some cases the API server or etcd.
//   - They make single API calls fail.
//   - They let an old leader continue to write after another scheduler has become the leader.
//
// All API calls of the schedulers pass through a proxy. It delays them, so that an eviction lasts
// long enough to be interrupted.
package crash
