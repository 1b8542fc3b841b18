// Package chart packs the Helm chart for a release: with its version, the released image, and the
// annotations for Artifact Hub.
package chart
