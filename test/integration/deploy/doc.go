// Package deploy renders the manifests under deploy/, installs them into a playground and runs the scheduler with
// the permissions of their ServiceAccount: they have to be enough, and no more than that. It does so with the Helm chart too, by the helm
// command, through upgrades and rollbacks with work running.
package deploy
