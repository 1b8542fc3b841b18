// Package queues shares a real cluster among queues: quota, limit, reclaim and min-runtime, and what an operator sees
// of them.
package queues
