// Package app is the kubectl-reprieve command: what its subcommands ask, and how the answers are
// shown. Where the objects come from is internal/inventory's, and what is decided
// internal/whatif's; both are the same for a cluster and for a snapshot file. The command never
// writes to a cluster.
package app
