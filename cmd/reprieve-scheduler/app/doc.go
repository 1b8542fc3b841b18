// Package app is the reprieve-scheduler command. It consists of kube-scheduler's options, server
// and loop, with Reprieve's plugins registered and enabled by default. Reprieve's controllers run
// beside the loop on the leader.
package app
