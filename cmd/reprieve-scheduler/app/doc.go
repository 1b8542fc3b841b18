// Package app is the reprieve-scheduler command. It is kube-scheduler's options, server and loop,
// with Reprieve's plugins registered and enabled by default. On the leader, Reprieve's controllers
// run in the same process.
package app
