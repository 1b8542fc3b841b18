// Package deploy renders the manifests under deploy/, installs them into a playground and runs the scheduler with
// the permissions of their ServiceAccount: they have to be enough, and no more than that.
package deploy
