// Package chart packs the Helm chart for a release: with its version, the released image, and what
// Artifact Hub shows of it.
package chart
