// Package app is the kubectl-reprieve command: its subcommands and the format of their answers. The
// objects come from internal/inventory: from a cluster, or from a snapshot file. internal/whatif
// makes the decisions about them. The command never writes to a cluster.
package app
