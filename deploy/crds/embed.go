// Package crds holds the CustomResourceDefinitions of Reprieve's API.
package crds

import "embed"

// FS holds the manifests, one CRD a file.
//
//go:embed *.yaml
var FS embed.FS
