// Package app is the kubectl-reprieve command: its subcommands, their questions and the form of
// their answers. internal/inventory provides the objects and internal/whatif decides, in the same
// way for a cluster and for a snapshot file. The command never writes to a cluster.
package app
