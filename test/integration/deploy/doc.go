// Package deploy renders the manifests under deploy/, installs them into a playground, and runs the
// scheduler with the permissions of their ServiceAccount. The permissions must be sufficient, and
// no wider than necessary. The package also installs the Helm chart with the helm command, and runs
// upgrades and rollbacks with work running.
package deploy
