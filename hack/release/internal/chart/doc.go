// Package chart prepares the Helm chart for a release. It sets the version and the image, and adds
// annotations for Artifact Hub.
package chart
