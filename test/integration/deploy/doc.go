// Package deploy tests the manifests in deploy/. It installs them into a playground, and runs the
// scheduler with the permissions of their ServiceAccount. These permissions must be sufficient, and
// the scheduler must use each of them.
//
// The package also installs the Helm chart with the helm command. It tests upgrades and rollbacks
// while work runs.
package deploy
