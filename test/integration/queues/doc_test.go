// Package queues tests queues on a real cluster: their quotas, limits, min-runtimes and status, and
// the reclaim of fair shares.
package queues
