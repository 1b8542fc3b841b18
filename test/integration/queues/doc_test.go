// Package queues tests queues on a real cluster: quota, limit, reclaim and min-runtime, and the
// status that an operator sees.
package queues
