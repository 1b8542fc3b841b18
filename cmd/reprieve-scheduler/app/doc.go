// Package app is the reprieve-scheduler command: kube-scheduler's own options, server and loop,
// with Reprieve's plugins registered, a default configuration in which they are on, and Reprieve's
// controllers beside the loop on the leader.
package app
